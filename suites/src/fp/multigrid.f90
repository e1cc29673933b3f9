! Poisson's equation on a periodic cube by multigrid V-cycles with 27-point operators.
! multigrid [LEVELS [CYCLES [SEED]]]: 2**LEVELS points a side
program multigrid
  use numbers
  implicit none
  type grid
    integer :: n
    real(real8), allocatable, dimension(:, :, :) :: u, r, v
  end type grid
  real(real8), parameter :: operator(0:3) = &
      [-8.0_real8 / 3, 0.0_real8, 1.0_real8 / 6, 1.0_real8 / 12]
  real(real8), parameter :: smoother(0:3) = &
      [-3.0_real8 / 8, 1.0_real8 / 32, -1.0_real8 / 64, 0.0_real8]
  type(grid), allocatable :: levels(:)
  integer :: top, cycles, level, n, cycle

  top = option(1, 4)
  cycles = option(2, 4)
  call seed_draws(option(3, 1))
  allocate (levels(top))
  do level = 1, top
    n = 2**level
    levels(level)%n = n
    allocate (levels(level)%u(0:n + 1, 0:n + 1, 0:n + 1), source=0.0_real8)
    allocate (levels(level)%r(0:n + 1, 0:n + 1, 0:n + 1), source=0.0_real8)
    allocate (levels(level)%v(0:n + 1, 0:n + 1, 0:n + 1), source=0.0_real8)
  end do
  call charges(levels(top)%v, n)
  call residual(levels(top)%u, levels(top)%v, levels(top)%r, n)
  write (*, '(a,es13.5)') 'start  ', norm(levels(top)%r, n)
  do cycle = 1, cycles
    call v_cycle()
    call residual(levels(top)%u, levels(top)%v, levels(top)%r, n)
    write (*, '(a,i3,es13.5)') 'cycle', cycle, norm(levels(top)%r, n)
  end do

contains

  ! Ten positive and ten negative unit charges at random places.
  subroutine charges(v, n)
    integer, intent(in) :: n
    real(real8), intent(inout) :: v(0:n + 1, 0:n + 1, 0:n + 1)
    integer :: placed, i, j, k

    placed = 0
    do while (placed < 20)
      i = 1 + int(n * draw())
      j = 1 + int(n * draw())
      k = 1 + int(n * draw())
      if (abs(v(i, j, k)) > 0) cycle
      v(i, j, k) = merge(1, -1, mod(placed, 2) == 0)
      placed = placed + 1
    end do
    call wrap(v, n)
  end subroutine charges

  subroutine wrap(u, n)
    integer, intent(in) :: n
    real(real8), intent(inout) :: u(0:n + 1, 0:n + 1, 0:n + 1)

    u(0, :, :) = u(n, :, :)
    u(n + 1, :, :) = u(1, :, :)
    u(:, 0, :) = u(:, n, :)
    u(:, n + 1, :) = u(:, 1, :)
    u(:, :, 0) = u(:, :, n)
    u(:, :, n + 1) = u(:, :, 1)
  end subroutine wrap

  ! Sums of the 4 edge neighbours in the plane through i, and of its 4 corners.
  pure subroutine plane(u, n, j, k, faces, corners)
    integer, intent(in) :: n, j, k
    real(real8), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1)
    real(real8), intent(out) :: faces(0:n + 1), corners(0:n + 1)
    integer :: i

    do i = 0, n + 1
      faces(i) = u(i, j - 1, k) + u(i, j + 1, k) + u(i, j, k - 1) + u(i, j, k + 1)
      corners(i) = u(i, j - 1, k - 1) + u(i, j + 1, k - 1) + u(i, j - 1, k + 1) + u(i, j + 1, k + 1)
    end do
  end subroutine plane

  ! r = v - operator u
  subroutine residual(u, v, r, n)
    integer, intent(in) :: n
    real(real8), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1), v(0:n + 1, 0:n + 1, 0:n + 1)
    real(real8), intent(inout) :: r(0:n + 1, 0:n + 1, 0:n + 1)
    real(real8) :: faces(0:n + 1), corners(0:n + 1)
    integer :: i, j, k

    do k = 1, n
      do j = 1, n
        call plane(u, n, j, k, faces, corners)
        do i = 1, n
          r(i, j, k) = v(i, j, k) - operator(0) * u(i, j, k) &
              - operator(2) * (corners(i) + faces(i - 1) + faces(i + 1)) &
              - operator(3) * (corners(i - 1) + corners(i + 1))
        end do
      end do
    end do
    call wrap(r, n)
  end subroutine residual

  ! u = u + smoother r
  subroutine smooth(u, r, n)
    integer, intent(in) :: n
    real(real8), intent(inout) :: u(0:n + 1, 0:n + 1, 0:n + 1)
    real(real8), intent(in) :: r(0:n + 1, 0:n + 1, 0:n + 1)
    real(real8) :: faces(0:n + 1), corners(0:n + 1)
    integer :: i, j, k

    do k = 1, n
      do j = 1, n
        call plane(r, n, j, k, faces, corners)
        do i = 1, n
          u(i, j, k) = u(i, j, k) + smoother(0) * r(i, j, k) &
              + smoother(1) * (r(i - 1, j, k) + r(i + 1, j, k) + faces(i)) &
              + smoother(2) * (corners(i) + faces(i - 1) + faces(i + 1))
        end do
      end do
    end do
    call wrap(u, n)
  end subroutine smooth

  ! Full weighting of the fine residue to every second point.
  subroutine restrict_to(fine, n, coarse, half)
    integer, intent(in) :: n, half
    real(real8), intent(in) :: fine(0:n + 1, 0:n + 1, 0:n + 1)
    real(real8), intent(inout) :: coarse(0:half + 1, 0:half + 1, 0:half + 1)
    real(real8) :: faces(0:n + 1), corners(0:n + 1)
    integer :: i, j, k, at

    do k = 1, half
      do j = 1, half
        call plane(fine, n, 2 * j, 2 * k, faces, corners)
        do i = 1, half
          at = 2 * i
          coarse(i, j, k) = 0.5_real8 * fine(at, 2 * j, 2 * k) &
              + 0.25_real8 * (fine(at - 1, 2 * j, 2 * k) + fine(at + 1, 2 * j, 2 * k) + faces(at)) &
              + 0.125_real8 * (faces(at - 1) + faces(at + 1) + corners(at)) &
              + 0.0625_real8 * (corners(at - 1) + corners(at + 1))
        end do
      end do
    end do
    call wrap(coarse, half)
  end subroutine restrict_to

  ! Adds the trilinear interpolation of the coarse correction.
  subroutine interpolate(coarse, half, fine, n)
    integer, intent(in) :: half, n
    real(real8), intent(in) :: coarse(0:half + 1, 0:half + 1, 0:half + 1)
    real(real8), intent(inout) :: fine(0:n + 1, 0:n + 1, 0:n + 1)
    integer :: i, j, k, a, b, c

    do k = 1, n
      c = k / 2
      do j = 1, n
        b = j / 2
        do i = 1, n
          a = i / 2
          fine(i, j, k) = fine(i, j, k) + between(coarse, half, a, b, c, mod(i, 2), mod(j, 2), mod(k, 2))
        end do
      end do
    end do
    call wrap(fine, n)
  end subroutine interpolate

  pure real(real8) function between(u, n, a, b, c, da, db, dc)
    integer, intent(in) :: n, a, b, c, da, db, dc
    real(real8), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1)

    between = u(a, b, c)
    if (da == 1) between = 0.5_real8 * (between + u(a + 1, b, c))
    if (db == 1) then
      if (da == 1) then
        between = 0.5_real8 * (between + 0.5_real8 * (u(a, b + 1, c) + u(a + 1, b + 1, c)))
      else
        between = 0.5_real8 * (between + u(a, b + 1, c))
      end if
    end if
    if (dc == 1) between = 0.5_real8 * (between + layer(u, n, a, b, c + 1, da, db))
  end function between

  pure real(real8) function layer(u, n, a, b, c, da, db)
    integer, intent(in) :: n, a, b, c, da, db
    real(real8), intent(in) :: u(0:n + 1, 0:n + 1, 0:n + 1)

    layer = 0.25_real8 * (u(a, b, c) + u(a + da, b, c) + u(a, b + db, c) + u(a + da, b + db, c))
  end function layer

  subroutine v_cycle()
    integer :: level

    do level = top, 2, -1
      call restrict_to(levels(level)%r, levels(level)%n, levels(level - 1)%r, levels(level - 1)%n)
    end do
    levels(1)%u = 0
    call smooth(levels(1)%u, levels(1)%r, levels(1)%n)
    do level = 2, top
      if (level < top) then
        levels(level)%u = 0
        levels(level)%v = levels(level)%r
      end if
      call interpolate(levels(level - 1)%u, levels(level - 1)%n, levels(level)%u, levels(level)%n)
      call residual(levels(level)%u, levels(level)%v, levels(level)%r, levels(level)%n)
      call smooth(levels(level)%u, levels(level)%r, levels(level)%n)
    end do
  end subroutine v_cycle

  real(real8) function norm(r, n)
    integer, intent(in) :: n
    real(real8), intent(in) :: r(0:n + 1, 0:n + 1, 0:n + 1)
    integer :: i, j, k

    norm = 0
    do k = 1, n
      do j = 1, n
        do i = 1, n
          norm = norm + r(i, j, k)**2
        end do
      end do
    end do
    norm = sqrt(norm / real(n, real8)**3)
  end function norm

end program multigrid
