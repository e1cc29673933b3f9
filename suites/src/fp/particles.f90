! A plasma of particles in a periodic box of two dimensions: charge is spread to the grid, the
! field is found by relaxation, and the particles are pushed in it and a magnetic field.
! particles [GRID [PARTICLES [STEPS [SEED]]]]
program particles
  use numbers
  implicit none
  integer :: n, count, steps, step, crossings
  real(real8), parameter :: dt = 0.1_real8, turn = 0.05_real8
  real(real8), allocatable, dimension(:) :: x, y, vx, vy
  real(real8), allocatable, dimension(:, :) :: rho, phi, ex, ey

  n = option(1, 16)
  count = option(2, 2000)
  steps = option(3, 3)
  call seed_draws(option(4, 1))
  allocate (x(count), y(count), vx(count), vy(count))
  allocate (rho(0:n - 1, 0:n - 1), phi(0:n - 1, 0:n - 1), ex(0:n - 1, 0:n - 1), ey(0:n - 1, 0:n - 1))
  call start_particles()
  phi = 0
  crossings = 0
  do step = 1, steps
    call deposit()
    call solve_field()
    call push()
    if (mod(step, 10) == 0 .or. step == steps) call report(step)
  end do

contains

  ! Two streams, against each other, with some heat.
  subroutine start_particles()
    integer :: i

    do i = 1, count
      x(i) = n * draw()
      y(i) = n * draw()
      vx(i) = merge(1.0_real8, -1.0_real8, mod(i, 2) == 0) + 0.1_real8 * (draw() + draw() - 1)
      vy(i) = 0.1_real8 * (draw() + draw() - 1)
    end do
  end subroutine start_particles

  subroutine deposit()
    integer :: i, ix, iy, jx, jy
    real(real8) :: fx, fy, charge

    charge = real(n, real8)**2 / count
    rho = 1
    do i = 1, count
      ix = int(x(i))
      iy = int(y(i))
      fx = x(i) - ix
      fy = y(i) - iy
      jx = ix + 1
      if (jx == n) jx = 0
      jy = iy + 1
      if (jy == n) jy = 0
      rho(ix, iy) = rho(ix, iy) - charge * (1 - fx) * (1 - fy)
      rho(jx, iy) = rho(jx, iy) - charge * fx * (1 - fy)
      rho(ix, jy) = rho(ix, jy) - charge * (1 - fx) * fy
      rho(jx, jy) = rho(jx, jy) - charge * fx * fy
    end do
  end subroutine deposit

  ! Red and black points by turns, until the change is small or thirty sweeps are done.
  subroutine solve_field()
    integer :: sweep, color, i, j, west, east, south, north
    real(real8) :: change, fresh

    do sweep = 1, 30
      change = 0
      do color = 0, 1
        do j = 0, n - 1
          south = modulo(j - 1, n)
          north = modulo(j + 1, n)
          do i = modulo(color + j, 2), n - 1, 2
            west = i - 1
            if (west < 0) west = n - 1
            east = i + 1
            if (east == n) east = 0
            fresh = 0.25_real8 * (phi(west, j) + phi(east, j) + phi(i, south) + phi(i, north) + rho(i, j))
            fresh = phi(i, j) + 1.6_real8 * (fresh - phi(i, j))
            if (abs(fresh - phi(i, j)) > change) change = abs(fresh - phi(i, j))
            phi(i, j) = fresh
          end do
        end do
      end do
      phi = phi - sum(phi) / n**2
      if (change < 1.0e-3_real8) exit
    end do
    do j = 0, n - 1
      do i = 0, n - 1
        ex(i, j) = 0.5_real8 * (phi(modulo(i - 1, n), j) - phi(modulo(i + 1, n), j))
        ey(i, j) = 0.5_real8 * (phi(i, modulo(j - 1, n)) - phi(i, modulo(j + 1, n)))
      end do
    end do
  end subroutine solve_field

  subroutine push()
    integer :: i, ix, iy, jx, jy
    real(real8) :: fx, fy, px, py, half

    do i = 1, count
      ix = int(x(i))
      iy = int(y(i))
      fx = x(i) - ix
      fy = y(i) - iy
      jx = ix + 1
      if (jx == n) jx = 0
      jy = iy + 1
      if (jy == n) jy = 0
      px = (ex(ix, iy) * (1 - fx) + ex(jx, iy) * fx) * (1 - fy) &
          + (ex(ix, jy) * (1 - fx) + ex(jx, jy) * fx) * fy
      py = (ey(ix, iy) * (1 - fx) + ey(jx, iy) * fx) * (1 - fy) &
          + (ey(ix, jy) * (1 - fx) + ey(jx, jy) * fx) * fy
      half = vx(i) - 0.5_real8 * dt * px
      vy(i) = vy(i) - 0.5_real8 * dt * py
      vx(i) = half + turn * dt * vy(i) - 0.5_real8 * dt * px
      vy(i) = vy(i) - turn * dt * half - 0.5_real8 * dt * py
      call move(x(i), vx(i))
      call move(y(i), vy(i))
    end do
  end subroutine push

  ! What leaves the box comes in at the other side.
  subroutine move(place, speed)
    real(real8), intent(inout) :: place
    real(real8), intent(in) :: speed

    place = place + dt * speed
    if (place >= n) then
      place = place - n
      crossings = crossings + 1
    else if (place < 0) then
      place = place + n
      crossings = crossings + 1
      if (place >= n) place = 0
    end if
  end subroutine move

  subroutine report(step)
    integer, intent(in) :: step
    real(real8) :: moving, field

    moving = 0.5_real8 * sum(vx**2 + vy**2) / count
    field = 0.5_real8 * sum(ex**2 + ey**2) / n**2
    write (*, '(a,i4,a,f9.5,a,es11.3,a,i8)') 'step', step, ', moving', moving, ', field', field, &
        ', crossings', crossings
  end subroutine report

end program particles
