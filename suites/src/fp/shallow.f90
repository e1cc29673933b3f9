! Shallow water on a doubly periodic grid: velocities and height, leapfrog steps with a filter
! in time, on a staggered grid.
! shallow [SIZE [STEPS [SEED]]]
program shallow
  use numbers
  implicit none
  real(real8), parameter :: pi = 3.14159265358979324_real8, dx = 1.0e5_real8, dt = 90
  integer :: n, steps, step
  real(real8), allocatable, dimension(:, :) :: u, v, p, unew, vnew, pnew, uold, vold, pold
  real(real8), allocatable, dimension(:, :) :: cu, cv, z, h
  real(real8) :: interval

  n = option(1, 64)
  steps = option(2, 20)
  call seed_draws(option(3, 1))
  allocate (u(n + 1, n + 1), v(n + 1, n + 1), p(n + 1, n + 1))
  allocate (unew(n + 1, n + 1), vnew(n + 1, n + 1), pnew(n + 1, n + 1))
  allocate (uold(n + 1, n + 1), vold(n + 1, n + 1), pold(n + 1, n + 1))
  allocate (cu(n + 1, n + 1), cv(n + 1, n + 1), z(n + 1, n + 1), h(n + 1, n + 1))
  call start_fields()
  interval = dt
  do step = 1, steps
    call fluxes()
    call advance(interval)
    if (step == 1) then
      interval = 2 * dt
      uold = u
      vold = v
      pold = p
      u = unew
      v = vnew
      p = pnew
    else
      call filter(0.001_real8)
    end if
    if (mod(step, 50) == 0) call report(step)
  end do
  call report(steps)

contains

  ! Two swirls of random size, and the height that balances them.
  subroutine start_fields()
    real(real8) :: a, stream(n + 1, n + 1), along, across, tall
    integer :: i, j

    a = (0.7_real8 + 0.6_real8 * draw()) * 1.0e6_real8
    tall = 5.0e4_real8
    do j = 1, n + 1
      across = 2 * pi * (j - 1) / n
      do i = 1, n + 1
        along = 2 * pi * (i - 1) / n
        stream(i, j) = a * sin(along) * sin(across)
        p(i, j) = tall + 500 * (cos(2 * along) + cos(2 * across))
      end do
    end do
    u = 0
    v = 0
    do j = 1, n
      do i = 1, n
        u(i + 1, j) = -(stream(i + 1, j + 1) - stream(i + 1, j)) / dx
        v(i, j + 1) = (stream(i + 1, j + 1) - stream(i, j + 1)) / dx
      end do
    end do
    call wrap(u)
    call wrap(v)
    uold = u
    vold = v
    pold = p
  end subroutine start_fields

  ! Makes the last row and column the first.
  subroutine wrap(field)
    real(real8), intent(inout) :: field(n + 1, n + 1)
    integer :: i

    do i = 1, n
      field(n + 1, i) = field(1, i)
      field(i, n + 1) = field(i, 1)
    end do
    field(n + 1, n + 1) = field(1, 1)
  end subroutine wrap

  ! Mass fluxes, potential vorticity, and height with kinetic energy.
  subroutine fluxes()
    integer :: i, j, west, south

    do j = 1, n
      south = j - 1
      if (south == 0) south = n
      do i = 1, n
        west = i - 1
        if (west == 0) west = n
        cu(i, j) = 0.5_real8 * (p(i, j) + p(west, j)) * u(i, j)
        cv(i, j) = 0.5_real8 * (p(i, j) + p(i, south)) * v(i, j)
        z(i, j) = 4 / dx * (v(i, j) - v(west, j) - u(i, j) + u(i, south)) &
                / (p(west, south) + p(i, south) + p(i, j) + p(west, j))
        h(i, j) = p(i, j) + 0.25_real8 * (u(i + 1, j)**2 + u(i, j)**2 + v(i, j + 1)**2 + v(i, j)**2)
      end do
    end do
    call wrap(cu)
    call wrap(cv)
    call wrap(z)
    call wrap(h)
  end subroutine fluxes

  subroutine advance(time)
    real(real8), intent(in) :: time
    integer :: i, j, west, south

    do j = 1, n
      south = j - 1
      if (south == 0) south = n
      do i = 1, n
        west = i - 1
        if (west == 0) west = n
        unew(i, j) = uold(i, j) + time / 8 * (z(i, j + 1) + z(i, j)) &
            * (cv(i, j + 1) + cv(west, j + 1) + cv(west, j) + cv(i, j)) &
            - time / dx * (h(i, j) - h(west, j))
        vnew(i, j) = vold(i, j) - time / 8 * (z(i + 1, j) + z(i, j)) &
            * (cu(i + 1, j) + cu(i, j) + cu(i, south) + cu(i + 1, south)) &
            - time / dx * (h(i, j) - h(i, south))
        pnew(i, j) = pold(i, j) - time / dx * (cu(i + 1, j) - cu(i, j) + cv(i, j + 1) - cv(i, j))
      end do
    end do
    call wrap(unew)
    call wrap(vnew)
    call wrap(pnew)
  end subroutine advance

  ! Takes the two time levels of the leapfrog scheme together again.
  subroutine filter(alpha)
    real(real8), intent(in) :: alpha
    integer :: i, j

    do j = 1, n + 1
      do i = 1, n + 1
        uold(i, j) = u(i, j) + alpha * (unew(i, j) - 2 * u(i, j) + uold(i, j))
        vold(i, j) = v(i, j) + alpha * (vnew(i, j) - 2 * v(i, j) + vold(i, j))
        pold(i, j) = p(i, j) + alpha * (pnew(i, j) - 2 * p(i, j) + pold(i, j))
        u(i, j) = unew(i, j)
        v(i, j) = vnew(i, j)
        p(i, j) = pnew(i, j)
      end do
    end do
  end subroutine filter

  subroutine report(step)
    integer, intent(in) :: step
    real(real8) :: mass, speed
    integer :: i, j

    mass = 0
    speed = 0
    do j = 1, n
      do i = 1, n
        mass = mass + p(i, j)
        speed = max(speed, abs(u(i, j)), abs(v(i, j)))
      end do
    end do
    write (*, '(a,i5,a,f13.4,a,f10.5)') 'step', step, ', mean height', mass / n**2, &
        ', largest speed', speed
  end subroutine report

end program shallow
