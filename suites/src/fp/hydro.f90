! A blast in a gas: Euler's equations in two dimensions, swept along rows and columns by turns,
! limited slopes, and a Riemann solver of two waves.
! hydro [SIZE [STEPS [SEED]]]
program hydro
  use numbers
  implicit none
  real(real8), parameter :: gamma = 1.4_real8, floor = 1.0e-8_real8
  integer :: n, steps, step
  real(real8), allocatable :: q(:, :, :)
  real(real8) :: time, dt

  n = option(1, 32)
  steps = option(2, 10)
  call seed_draws(option(3, 1))
  allocate (q(4, n, n))
  call start_fields()
  time = 0
  do step = 1, steps
    dt = 0.4_real8 / n / fastest()
    if (mod(step, 2) == 0) then
      call sweep_rows(dt)
      call sweep_columns(dt)
    else
      call sweep_columns(dt)
      call sweep_rows(dt)
    end if
    time = time + dt
    if (mod(step, 25) == 0 .or. step == steps) call report()
  end do

contains

  ! Gas at rest, a hot circle, and some dense drops.
  subroutine start_fields()
    real(real8) :: x, y, pressure, density, place(2, 4)
    integer :: i, j, k

    do k = 1, 4
      place(:, k) = [draw(), draw()]
    end do
    do j = 1, n
      do i = 1, n
        x = (i - 0.5_real8) / n
        y = (j - 0.5_real8) / n
        density = 1
        pressure = 0.1_real8
        if ((x - 0.4_real8)**2 + (y - 0.5_real8)**2 < 0.01_real8) pressure = 10
        do k = 1, 4
          if ((x - place(1, k))**2 + (y - place(2, k))**2 < 0.005_real8) density = 4
        end do
        q(:, i, j) = [density, 0.0_real8, 0.0_real8, pressure / (gamma - 1)]
      end do
    end do
  end subroutine start_fields

  real(real8) function fastest()
    real(real8) :: pressure, sound
    integer :: i, j

    fastest = floor
    do j = 1, n
      do i = 1, n
        pressure = (gamma - 1) * (q(4, i, j) - 0.5_real8 * (q(2, i, j)**2 + q(3, i, j)**2) / q(1, i, j))
        sound = sqrt(gamma * max(pressure, floor) / q(1, i, j))
        fastest = max(fastest, sound + max(abs(q(2, i, j)), abs(q(3, i, j))) / q(1, i, j))
      end do
    end do
  end function fastest

  ! The slope that makes no new extremum.
  real(real8) function limited(left, right)
    real(real8), intent(in) :: left, right

    if (left * right <= 0) then
      limited = 0
    else if (abs(left) < abs(right)) then
      limited = min(2 * abs(left), 0.5_real8 * abs(left + right))
      if (left < 0) limited = -limited
    else
      limited = min(2 * abs(right), 0.5_real8 * abs(left + right))
      if (right < 0) limited = -limited
    end if
  end function limited

  subroutine to_primitive(conserved, primitive)
    real(real8), intent(in) :: conserved(4)
    real(real8), intent(out) :: primitive(4)

    primitive(1) = max(conserved(1), floor)
    primitive(2) = conserved(2) / primitive(1)
    primitive(3) = conserved(3) / primitive(1)
    primitive(4) = (gamma - 1) * (conserved(4) &
        - 0.5_real8 * primitive(1) * (primitive(2)**2 + primitive(3)**2))
    if (primitive(4) < floor) primitive(4) = floor
  end subroutine to_primitive

  ! Flux through the face between two states.
  subroutine riemann(l, r, flux)
    real(real8), intent(in) :: l(4), r(4)
    real(real8), intent(out) :: flux(4)
    real(real8) :: slow, fast, cl, cr, el, er, fl(4), fr(4), ul(4), ur(4)

    cl = sqrt(gamma * l(4) / l(1))
    cr = sqrt(gamma * r(4) / r(1))
    slow = min(l(2) - cl, r(2) - cr)
    fast = max(l(2) + cl, r(2) + cr)
    el = l(4) / (gamma - 1) + 0.5_real8 * l(1) * (l(2)**2 + l(3)**2)
    er = r(4) / (gamma - 1) + 0.5_real8 * r(1) * (r(2)**2 + r(3)**2)
    ul = [l(1), l(1) * l(2), l(1) * l(3), el]
    ur = [r(1), r(1) * r(2), r(1) * r(3), er]
    fl = [ul(2), ul(2) * l(2) + l(4), ul(2) * l(3), (el + l(4)) * l(2)]
    fr = [ur(2), ur(2) * r(2) + r(4), ur(2) * r(3), (er + r(4)) * r(2)]
    if (slow >= 0) then
      flux = fl
    else if (fast <= 0) then
      flux = fr
    else
      flux = (fast * fl - slow * fr + slow * fast * (ur - ul)) / (fast - slow)
    end if
  end subroutine riemann

  ! One line of cells, its first velocity along the line; walls at both ends.
  subroutine sweep_line(line, dt)
    real(real8), intent(inout) :: line(4, n)
    real(real8), intent(in) :: dt
    real(real8) :: p(4, 0:n + 1), slope(4, 0:n + 1), flux(4, 0:n), left(4), right(4)
    integer :: i, k

    do i = 1, n
      call to_primitive(line(:, i), p(:, i))
    end do
    p(:, 0) = [p(1, 1), -p(2, 1), p(3, 1), p(4, 1)]
    p(:, n + 1) = [p(1, n), -p(2, n), p(3, n), p(4, n)]
    slope(:, 0) = 0
    slope(:, n + 1) = 0
    do i = 1, n
      do k = 1, 4
        slope(k, i) = limited(p(k, i) - p(k, i - 1), p(k, i + 1) - p(k, i))
      end do
    end do
    do i = 0, n
      left = p(:, i) + 0.5_real8 * slope(:, i)
      right = p(:, i + 1) - 0.5_real8 * slope(:, i + 1)
      if (min(left(1), left(4), right(1), right(4)) <= floor) then
        left = p(:, i)
        right = p(:, i + 1)
      end if
      call riemann(left, right, flux(:, i))
    end do
    do i = 1, n
      line(:, i) = line(:, i) - dt * n * (flux(:, i) - flux(:, i - 1))
    end do
  end subroutine sweep_line

  subroutine sweep_rows(dt)
    real(real8), intent(in) :: dt
    integer :: j

    do j = 1, n
      call sweep_line(q(:, :, j), dt)
    end do
  end subroutine sweep_rows

  subroutine sweep_columns(dt)
    real(real8), intent(in) :: dt
    real(real8) :: line(4, n)
    integer :: i, j

    do i = 1, n
      do j = 1, n
        line(:, j) = [q(1, i, j), q(3, i, j), q(2, i, j), q(4, i, j)]
      end do
      call sweep_line(line, dt)
      do j = 1, n
        q(:, i, j) = [line(1, j), line(3, j), line(2, j), line(4, j)]
      end do
    end do
  end subroutine sweep_columns

  subroutine report()
    real(real8) :: mass, energy, densest
    integer :: i, j

    mass = 0
    energy = 0
    densest = 0
    do j = 1, n
      do i = 1, n
        mass = mass + q(1, i, j)
        energy = energy + q(4, i, j)
        densest = max(densest, q(1, i, j))
      end do
    end do
    write (*, '(a,f9.5,3(a,f11.6))') 'time', time, ', mass', mass / n**2, ', energy', energy / n**2, &
        ', densest', densest
  end subroutine report

end program hydro
