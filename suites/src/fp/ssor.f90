! Five coupled equations of advection, diffusion and reaction on a cube, implicit in time: block
! lower and upper sweeps of symmetric over-relaxation.
! ssor [SIZE [STEPS [SEED]]]
program ssor
  use numbers
  implicit none
  integer, parameter :: m = 5
  real(real8), parameter :: omega = 1.2_real8, dt = 0.05_real8, viscosity = 0.02_real8
  integer :: n, steps, step
  real(real8), allocatable, dimension(:, :, :, :) :: u, r
  real(real8) :: speed(m), coupling(m, m), size

  n = option(1, 8)
  steps = option(2, 4)
  call seed_draws(option(3, 1))
  allocate (u(m, 0:n + 1, 0:n + 1, 0:n + 1), r(m, 0:n + 1, 0:n + 1, 0:n + 1))
  call start_fields()
  do step = 1, steps
    call right_side()
    call lower_sweep()
    call upper_sweep()
    call add()
    if (mod(step, 10) == 0 .or. step == steps) then
      call norm(size)
      write (*, '(a,i5,a,es12.4)') 'step', step, ', change', size
    end if
  end do
  do step = 1, m
    write (*, '(a,i2,f12.6)') 'mean of', step, sum(u(step, 1:n, 1:n, 1:n)) / real(n, real8)**3
  end do

contains

  subroutine start_fields()
    integer :: i, j, k, a, b

    do a = 1, m
      speed(a) = 2 * draw() - 1
      do b = 1, m
        coupling(a, b) = 0.3_real8 * (draw() - 0.5_real8)
      end do
      coupling(a, a) = 1 + draw()
    end do
    r = 0
    do k = 0, n + 1
      do j = 0, n + 1
        do i = 0, n + 1
          do a = 1, m
            u(a, i, j, k) = real(a * i + j * (n - k), real8) / (n * (n + a)) + 0.05_real8 * draw()
          end do
        end do
      end do
    end do
  end subroutine start_fields

  ! What the equations say of the present state, times dt.
  subroutine right_side()
    integer :: i, j, k, a
    real(real8) :: flow, spread, reaction, here

    do k = 1, n
      do j = 1, n
        do i = 1, n
          do a = 1, m
            here = u(a, i, j, k)
            flow = u(a, i + 1, j, k) - u(a, i - 1, j, k) + u(a, i, j + 1, k) - u(a, i, j - 1, k) &
                + u(a, i, j, k + 1) - u(a, i, j, k - 1)
            spread = u(a, i + 1, j, k) + u(a, i - 1, j, k) + u(a, i, j + 1, k) + u(a, i, j - 1, k) &
                + u(a, i, j, k + 1) + u(a, i, j, k - 1) - 6 * here
            reaction = coupling(a, 1) * u(1, i, j, k) + coupling(a, 2) * u(2, i, j, k) &
                + coupling(a, 3) * u(3, i, j, k) + coupling(a, 4) * u(4, i, j, k) &
                + coupling(a, 5) * u(5, i, j, k)
            if (here > 1) reaction = reaction + (here - 1)**2
            r(a, i, j, k) = dt * (viscosity * n * spread - 0.5_real8 * speed(a) * flow - reaction)
          end do
        end do
      end do
    end do
  end subroutine right_side

  ! The block of the unknowns of one point: 1 + dt (diffusion + reaction), its slope included.
  subroutine diagonal(state, block)
    real(real8), intent(in) :: state(m)
    real(real8), intent(out) :: block(m, m)
    integer :: a, b

    do b = 1, m
      do a = 1, m
        block(a, b) = dt * coupling(a, b)
      end do
      block(b, b) = block(b, b) + 1 + 6 * dt * viscosity * n
      if (state(b) > 1) block(b, b) = block(b, b) + 2 * dt * (state(b) - 1)
    end do
  end subroutine diagonal

  ! Gauss elimination of a block, in place, the right side in x.
  subroutine solve(block, x)
    real(real8), intent(inout) :: block(m, m), x(m)
    integer :: i, j, k
    real(real8) :: factor

    do k = 1, m - 1
      do i = k + 1, m
        factor = block(i, k) / block(k, k)
        do j = k + 1, m
          block(i, j) = block(i, j) - factor * block(k, j)
        end do
        x(i) = x(i) - factor * x(k)
      end do
    end do
    do i = m, 1, -1
      do j = i + 1, m
        x(i) = x(i) - block(i, j) * x(j)
      end do
      x(i) = x(i) / block(i, i)
    end do
  end subroutine solve

  subroutine lower_sweep()
    integer :: i, j, k, a
    real(real8) :: block(m, m), x(m), before

    do k = 1, n
      do j = 1, n
        do i = 1, n
          do a = 1, m
            before = dt * (viscosity * n + 0.5_real8 * speed(a))
            x(a) = r(a, i, j, k) &
                + omega * before * (r(a, i - 1, j, k) + r(a, i, j - 1, k) + r(a, i, j, k - 1))
          end do
          call diagonal(u(:, i, j, k), block)
          call solve(block, x)
          r(:, i, j, k) = x
        end do
      end do
    end do
  end subroutine lower_sweep

  subroutine upper_sweep()
    integer :: i, j, k, a
    real(real8) :: block(m, m), x(m), after

    do k = n, 1, -1
      do j = n, 1, -1
        do i = n, 1, -1
          do a = 1, m
            after = dt * (viscosity * n - 0.5_real8 * speed(a))
            x(a) = omega * after * (r(a, i + 1, j, k) + r(a, i, j + 1, k) + r(a, i, j, k + 1))
          end do
          call diagonal(u(:, i, j, k), block)
          call solve(block, x)
          r(:, i, j, k) = r(:, i, j, k) + x
        end do
      end do
    end do
  end subroutine upper_sweep

  subroutine add()
    u(:, 1:n, 1:n, 1:n) = u(:, 1:n, 1:n, 1:n) + r(:, 1:n, 1:n, 1:n) / (omega * (2 - omega))
  end subroutine add

  subroutine norm(size)
    real(real8), intent(out) :: size

    size = sqrt(sum(r(:, 1:n, 1:n, 1:n)**2) / (m * real(n, real8)**3))
  end subroutine norm

end program ssor
