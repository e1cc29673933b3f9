! Decaying two-dimensional turbulence on a periodic square: vorticity in Fourier space, products
! in physical space, Runge-Kutta steps, and a fast Fourier transform of radix four and two.
! turbulence [LOG-SIZE [STEPS [SEED]]]
program turbulence
  use numbers
  implicit none
  integer, parameter :: complex8 = real8
  real(real8), parameter :: pi = 3.14159265358979324_real8, viscosity = 2.0e-4_real8
  integer :: bits, n, steps, step
  complex(complex8), allocatable :: roots(:)
  complex(complex8), allocatable, dimension(:, :) :: w, start, slope, a, b
  integer, allocatable :: wave(:)

  bits = option(1, 5)
  n = 2**bits
  steps = option(2, 4)
  call seed_draws(option(3, 1))
  allocate (roots(0:n - 1), wave(0:n - 1))
  allocate (w(0:n - 1, 0:n - 1), start(0:n - 1, 0:n - 1), slope(0:n - 1, 0:n - 1))
  allocate (a(0:n - 1, 0:n - 1), b(0:n - 1, 0:n - 1))
  call prepare()
  call stir()
  call report(0)
  do step = 1, steps
    call advance(0.4_real8 / n)
    if (mod(step, 5) == 0 .or. step == steps) call report(step)
  end do

contains

  subroutine prepare()
    integer :: i

    do i = 0, n - 1
      roots(i) = exp(cmplx(0, -2 * pi * i / n, complex8))
      wave(i) = i
      if (i > n / 2) wave(i) = i - n
    end do
  end subroutine prepare

  ! Large eddies of random phase.
  subroutine stir()
    integer :: i, j
    real(real8) :: k, size

    a = 0
    do j = 0, n - 1
      do i = 0, n - 1
        k = sqrt(real(wave(i)**2 + wave(j)**2, real8))
        size = 2 * draw() - 1
        if (k > 0.5_real8 .and. k < n / 3.0_real8) a(i, j) = size * k / (1 + (k / 4)**4)
      end do
    end do
    call transform_plane(a, .true.)
    w = real(a, real8)
    call transform_plane(w, .false.)
    call cut(w)
  end subroutine stir

  ! In place; `back` leaves out the division by n.
  subroutine transform(line, back)
    complex(complex8), intent(inout) :: line(0:n - 1)
    logical, intent(in) :: back
    complex(complex8) :: p, q, r, s, turn
    integer :: half, from, i, stride, sign

    call reverse_bits(line)
    sign = merge(-1, 1, back)
    half = 1
    if (mod(bits, 2) == 1) then
      do from = 0, n - 1, 2
        p = line(from)
        q = line(from + 1)
        line(from) = p + q
        line(from + 1) = p - q
      end do
      half = 2
    end if
    do while (half < n)
      stride = n / (4 * half)
      turn = cmplx(0, -sign, complex8)
      do i = 0, half - 1
        do from = i, n - 1, 4 * half
          p = line(from)
          q = line(from + half) * root(2 * i * stride, back)
          r = line(from + 2 * half) * root(i * stride, back)
          s = line(from + 3 * half) * root(3 * i * stride, back)
          line(from) = (p + q) + (r + s)
          line(from + half) = (p - q) + turn * (r - s)
          line(from + 2 * half) = (p + q) - (r + s)
          line(from + 3 * half) = (p - q) - turn * (r - s)
        end do
      end do
      half = 4 * half
    end do
    if (.not. back) line = line / n
  end subroutine transform

  complex(complex8) function root(i, back)
    integer, intent(in) :: i
    logical, intent(in) :: back

    root = roots(i)
    if (back) root = conjg(root)
  end function root

  subroutine reverse_bits(line)
    complex(complex8), intent(inout) :: line(0:n - 1)
    complex(complex8) :: kept
    integer :: i, j, bit

    j = 0
    do i = 0, n - 2
      if (i < j) then
        kept = line(i)
        line(i) = line(j)
        line(j) = kept
      end if
      bit = n / 2
      do while (iand(j, bit) /= 0)
        j = j - bit
        bit = bit / 2
      end do
      j = j + bit
    end do
  end subroutine reverse_bits

  subroutine transform_plane(field, back)
    complex(complex8), intent(inout) :: field(0:n - 1, 0:n - 1)
    logical, intent(in) :: back
    complex(complex8) :: line(0:n - 1)
    integer :: i, j

    do j = 0, n - 1
      call transform(field(:, j), back)
    end do
    do i = 0, n - 1
      do j = 0, n - 1
        line(j) = field(i, j)
      end do
      call transform(line, back)
      do j = 0, n - 1
        field(i, j) = line(j)
      end do
    end do
  end subroutine transform_plane

  ! Takes away what would alias in a product.
  subroutine cut(field)
    complex(complex8), intent(inout) :: field(0:n - 1, 0:n - 1)
    integer :: i, j

    do j = 0, n - 1
      do i = 0, n - 1
        if (3 * abs(wave(i)) >= n .or. 3 * abs(wave(j)) >= n) field(i, j) = 0
      end do
    end do
    field(0, 0) = 0
  end subroutine cut

  ! slope = what advection and viscosity do to w. Two real fields share one complex transform.
  subroutine find_slope()
    complex(complex8) :: stream, ik, il
    integer :: i, j
    real(real8) :: square

    do j = 0, n - 1
      do i = 0, n - 1
        square = max(real(wave(i)**2 + wave(j)**2, real8), 1.0_real8)
        ik = cmplx(0, wave(i), complex8)
        il = cmplx(0, wave(j), complex8)
        stream = w(i, j) / square
        a(i, j) = il * stream - (0, 1) * ik * stream
        b(i, j) = ik * w(i, j) + (0, 1) * il * w(i, j)
      end do
    end do
    call transform_plane(a, .true.)
    call transform_plane(b, .true.)
    do j = 0, n - 1
      do i = 0, n - 1
        a(i, j) = real(a(i, j), real8) * real(b(i, j), real8) + aimag(a(i, j)) * aimag(b(i, j))
      end do
    end do
    call transform_plane(a, .false.)
    do j = 0, n - 1
      do i = 0, n - 1
        slope(i, j) = -a(i, j) - viscosity * (wave(i)**2 + wave(j)**2) * w(i, j)
      end do
    end do
    call cut(slope)
  end subroutine find_slope

  subroutine advance(time)
    real(real8), intent(in) :: time
    integer :: stage

    start = w
    do stage = 3, 1, -1
      call find_slope()
      w = start + time / stage * slope
    end do
  end subroutine advance

  subroutine report(step)
    integer, intent(in) :: step
    real(real8) :: energy, enstrophy, part
    integer :: i, j

    energy = 0
    enstrophy = 0
    do j = 0, n - 1
      do i = 0, n - 1
        if (i == 0 .and. j == 0) cycle
        part = real(w(i, j), real8)**2 + aimag(w(i, j))**2
        enstrophy = enstrophy + part / 2
        energy = energy + part / 2 / (wave(i)**2 + wave(j)**2)
      end do
    end do
    write (*, '(a,i4,2(a,es12.4))') 'step', step, ', energy', energy, ', enstrophy', enstrophy
  end subroutine report

end program turbulence
