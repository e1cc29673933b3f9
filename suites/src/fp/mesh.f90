! Generation of a curved mesh: the two coordinates solve coupled elliptic equations, line by line
! over-relaxed with a tridiagonal solver.
! mesh [SIZE [STEPS [SEED]]]
program mesh
  use numbers
  implicit none
  integer :: size, steps, step, done
  real(real8), allocatable, dimension(:, :) :: x, y, rx, ry, aa, dd
  real(real8) :: worst_x, worst_y

  size = option(1, 65)
  steps = option(2, 20)
  call seed_draws(option(3, 1))
  allocate (x(size, size), y(size, size), rx(size, size), ry(size, size))
  allocate (aa(size, size), dd(size, size))
  call make_boundary(x, y, size)
  done = 0
  do step = 1, steps
    call residuals(x, y, rx, ry, aa, dd, size)
    call largest(rx, size, worst_x)
    call largest(ry, size, worst_y)
    call solve_lines(aa, dd, rx, ry, size)
    call correct(x, y, rx, ry, size)
    done = step
    if (max(worst_x, worst_y) < 1.0e-9_real8) exit
    if (mod(step, 20) == 0) write (*, '(i6,2es11.3)') step, worst_x, worst_y
  end do
  write (*, '(a,i5,a,es11.3)') 'steps', done, ', residue', max(worst_x, worst_y)
  write (*, '(a,f11.6,a,i6)') 'area', area(x, y, size), ', folded cells', folded(x, y, size)

contains

  ! A wavy box; inside, points between the lower and the upper boundary.
  subroutine make_boundary(x, y, n)
    integer, intent(in) :: n
    real(real8), intent(out) :: x(n, n), y(n, n)
    real(real8) :: low, high, share, wave
    integer :: i, j

    wave = 4 + 2 * draw()
    do i = 1, n
      share = real(i - 1, real8) / (n - 1)
      low = 0.1_real8 * sin(wave * share)
      high = 1 + 0.15_real8 * cos(wave * share) + 0.002_real8 * draw()
      do j = 1, n
        x(i, j) = share + 0.004_real8 * draw()
        y(i, j) = low + (high - low) * (j - 1) / (n - 1)
      end do
    end do
  end subroutine make_boundary

  subroutine residuals(x, y, rx, ry, aa, dd, n)
    integer, intent(in) :: n
    real(real8), intent(in) :: x(n, n), y(n, n)
    real(real8), intent(out) :: rx(n, n), ry(n, n), aa(n, n), dd(n, n)
    real(real8) :: xx, yx, xy, yy, a, b, c, pxx, pyy, pxy, qxx, qyy, qxy
    integer :: i, j

    rx = 0
    ry = 0
    do j = 2, n - 1
      do i = 2, n - 1
        xx = x(i + 1, j) - x(i - 1, j)
        yx = y(i + 1, j) - y(i - 1, j)
        xy = x(i, j + 1) - x(i, j - 1)
        yy = y(i, j + 1) - y(i, j - 1)
        a = 0.25_real8 * (xy * xy + yy * yy)
        b = 0.25_real8 * (xx * xx + yx * yx)
        c = 0.125_real8 * (xx * xy + yx * yy)
        aa(i, j) = -b
        dd(i, j) = 2 * (a + b) * 1.02_real8
        pxx = x(i + 1, j) - 2 * x(i, j) + x(i - 1, j)
        qxx = y(i + 1, j) - 2 * y(i, j) + y(i - 1, j)
        pyy = x(i, j + 1) - 2 * x(i, j) + x(i, j - 1)
        qyy = y(i, j + 1) - 2 * y(i, j) + y(i, j - 1)
        pxy = x(i + 1, j + 1) - x(i + 1, j - 1) - x(i - 1, j + 1) + x(i - 1, j - 1)
        qxy = y(i + 1, j + 1) - y(i + 1, j - 1) - y(i - 1, j + 1) + y(i - 1, j - 1)
        rx(i, j) = a * pxx + b * pyy - c * pxy
        ry(i, j) = a * qxx + b * qyy - c * qxy
      end do
    end do
  end subroutine residuals

  subroutine largest(r, n, worst)
    integer, intent(in) :: n
    real(real8), intent(in) :: r(n, n)
    real(real8), intent(out) :: worst
    integer :: i, j

    worst = 0
    do j = 2, n - 1
      do i = 2, n - 1
        if (abs(r(i, j)) > abs(worst)) worst = r(i, j)
      end do
    end do
    worst = abs(worst)
  end subroutine largest

  ! Tridiagonal systems along j, one for each i, eliminated side by side.
  subroutine solve_lines(aa, dd, rx, ry, n)
    integer, intent(in) :: n
    real(real8), intent(in) :: aa(n, n)
    real(real8), intent(inout) :: dd(n, n), rx(n, n), ry(n, n)
    real(real8) :: factor
    integer :: i, j

    do j = 3, n - 1
      do i = 2, n - 1
        factor = aa(i, j) / dd(i, j - 1)
        dd(i, j) = dd(i, j) - factor * aa(i, j - 1)
        rx(i, j) = rx(i, j) - factor * rx(i, j - 1)
        ry(i, j) = ry(i, j) - factor * ry(i, j - 1)
      end do
    end do
    do j = n - 1, 2, -1
      do i = 2, n - 1
        if (j < n - 1) then
          rx(i, j) = rx(i, j) - aa(i, j) * rx(i, j + 1)
          ry(i, j) = ry(i, j) - aa(i, j) * ry(i, j + 1)
        end if
        rx(i, j) = rx(i, j) / dd(i, j)
        ry(i, j) = ry(i, j) / dd(i, j)
      end do
    end do
  end subroutine solve_lines

  subroutine correct(x, y, rx, ry, n)
    integer, intent(in) :: n
    real(real8), intent(inout) :: x(n, n), y(n, n)
    real(real8), intent(in) :: rx(n, n), ry(n, n)
    integer :: i, j

    do j = 2, n - 1
      do i = 2, n - 1
        x(i, j) = x(i, j) + rx(i, j)
        y(i, j) = y(i, j) + ry(i, j)
      end do
    end do
  end subroutine correct

  real(real8) function cell(x, y, n, i, j)
    integer, intent(in) :: n, i, j
    real(real8), intent(in) :: x(n, n), y(n, n)

    cell = 0.5_real8 * ((x(i + 1, j + 1) - x(i, j)) * (y(i, j + 1) - y(i + 1, j)) &
         - (x(i, j + 1) - x(i + 1, j)) * (y(i + 1, j + 1) - y(i, j)))
  end function cell

  real(real8) function area(x, y, n)
    integer, intent(in) :: n
    real(real8), intent(in) :: x(n, n), y(n, n)
    integer :: i, j

    area = 0
    do j = 1, n - 1
      do i = 1, n - 1
        area = area + abs(cell(x, y, n, i, j))
      end do
    end do
  end function area

  integer function folded(x, y, n)
    integer, intent(in) :: n
    real(real8), intent(in) :: x(n, n), y(n, n)
    integer :: i, j

    folded = 0
    do j = 1, n - 1
      do i = 1, n - 1
        if (cell(x, y, n, i, j) <= 0) folded = folded + 1
      end do
    end do
  end function folded

end program mesh
