! Pollutants in the air over a plain: limited advection by the wind, vertical mixing that depends
! on the hour, sources that change with it, and the chemistry of three gases.
! pollutant [SIZE [STEPS [SEED]]]
program pollutant
  use numbers
  implicit none
  integer, parameter :: height = 10, gases = 3
  real(real8), parameter :: pi = 3.14159265358979324_real8, hour = 0.05_real8
  integer :: n, steps, step
  real(real8), allocatable :: c(:, :, :, :), source(:, :)
  real(real8) :: clock

  n = option(1, 16)
  steps = option(2, 6)
  call seed_draws(option(3, 1))
  allocate (c(n, n, height, gases), source(n, n))
  call start_air()
  clock = 6
  do step = 1, steps
    call emit()
    call blow()
    call mix()
    call react()
    clock = clock + hour
    if (clock >= 24) clock = clock - 24
    if (mod(step, 20) == 0 .or. step == steps) call report(step)
  end do

contains

  ! Clean air, five towns.
  subroutine start_air()
    integer :: town, i, j, x, y

    c(:, :, :, 1) = 0.01_real8
    c(:, :, :, 2) = 0.02_real8
    c(:, :, :, 3) = 0.4_real8
    source = 0
    do town = 1, 5
      x = 1 + int(n * draw())
      y = 1 + int(n * draw())
      do j = max(1, y - 2), min(n, y + 2)
        do i = max(1, x - 2), min(n, x + 2)
          source(i, j) = source(i, j) + 2.0_real8 / (1 + (i - x)**2 + (j - y)**2)
        end do
      end do
    end do
  end subroutine start_air

  subroutine emit()
    real(real8) :: traffic
    integer :: i, j

    traffic = 0.1_real8
    if (clock > 7 .and. clock < 9 .or. clock > 16 .and. clock < 19) then
      traffic = 1
    else if (clock >= 9 .and. clock <= 16) then
      traffic = 0.5_real8
    end if
    do j = 1, n
      do i = 1, n
        if (source(i, j) > 0) then
          c(i, j, 1, 1) = c(i, j, 1, 1) + hour * traffic * source(i, j)
          c(i, j, 1, 2) = c(i, j, 1, 2) + 0.1_real8 * hour * traffic * source(i, j)
        end if
      end do
    end do
  end subroutine emit

  subroutine blow()
    integer :: k, gas
    real(real8) :: east, north

    do k = 1, height
      east = 0.4_real8 + 0.4_real8 * log(real(k, real8) + 1) * cos(2 * pi * clock / 24)
      north = 0.3_real8 * sin(2 * pi * clock / 24 + 0.1_real8 * k)
      do gas = 1, gases
        call advect(c(:, :, k, gas), east, north)
      end do
    end do
  end subroutine blow

  subroutine advect(q, east, north)
    real(real8), intent(inout) :: q(n, n)
    real(real8), intent(in) :: east, north
    integer :: i, j

    do j = 1, n
      call advect_line(q(:, j), 0.4_real8 * east)
    end do
    do i = 1, n
      call advect_line(q(i, :), 0.4_real8 * north)
    end do
  end subroutine advect

  ! One line, upwind of second order with a limiter; what leaves at one end comes in as it was.
  subroutine advect_line(q, courant)
    real(real8), intent(inout) :: q(n)
    real(real8), intent(in) :: courant
    real(real8) :: flux(0:n), behind, here, before, ratio
    integer :: i, from

    do i = 0, n
      if (courant >= 0) then
        from = i
        before = q(max(from - 1, 1))
        behind = q(min(from + 1, n))
      else
        from = i + 1
        before = q(min(from + 1, n))
        behind = q(max(from - 1, 1))
      end if
      from = min(max(from, 1), n)
      here = q(from)
      flux(i) = courant * here
      if (abs(behind - here) > 1.0e-12_real8) then
        ratio = (here - before) / (behind - here)
        if (ratio > 0) then
          flux(i) = flux(i) + 0.5_real8 * abs(courant) * (1 - abs(courant)) * (behind - here) &
              * sign(min(2.0_real8, 2 * ratio, 0.5_real8 + 0.5_real8 * ratio), 1.0_real8)
        end if
      end if
    end do
    do i = 1, n
      q(i) = max(q(i) - (flux(i) - flux(i - 1)), 0.0_real8)
    end do
  end subroutine advect_line

  ! Vertical diffusion, implicit: a tridiagonal system for each column and gas.
  subroutine mix()
    real(real8) :: strength(0:height), diagonal(height), right(height), factor, sun
    integer :: i, j, k, gas

    sun = max(0.0_real8, sin(pi * (clock - 6) / 12))
    do k = 0, height
      strength(k) = hour * (0.2_real8 + 8 * sun * exp(-((k - 3) / 3.0_real8)**2))
    end do
    strength(0) = 0
    strength(height) = 0
    do gas = 1, gases
      do j = 1, n
        do i = 1, n
          do k = 1, height
            diagonal(k) = 1 + strength(k - 1) + strength(k)
            right(k) = c(i, j, k, gas)
          end do
          if (gas == 3) right(1) = right(1) * (1 - 0.02_real8 * hour)
          do k = 2, height
            factor = strength(k - 1) / diagonal(k - 1)
            diagonal(k) = diagonal(k) - factor * strength(k - 1)
            right(k) = right(k) + factor * right(k - 1)
          end do
          c(i, j, height, gas) = right(height) / diagonal(height)
          do k = height - 1, 1, -1
            c(i, j, k, gas) = (right(k) + strength(k) * c(i, j, k + 1, gas)) / diagonal(k)
          end do
        end do
      end do
    end do
  end subroutine mix

  ! NO + O3 -> NO2 + O2; NO2 + light -> NO + O3: in equilibrium by Newton's method.
  subroutine react()
    integer :: i, j, k, round
    real(real8) :: light, rate, no, no2, o3, x, wrong, slope

    light = 0.5_real8 * max(0.0_real8, sin(pi * (clock - 6) / 12))
    rate = 3
    do k = 1, height
      do j = 1, n
        do i = 1, n
          no = c(i, j, k, 1)
          no2 = c(i, j, k, 2)
          o3 = c(i, j, k, 3)
          if (no * o3 < 1.0e-14_real8 .and. light < 1.0e-6_real8) cycle
          x = 0
          do round = 1, 8
            wrong = x - hour * (rate * (no - x) * (o3 - x) - light * (no2 + x))
            if (abs(wrong) < 1.0e-12_real8) exit
            slope = 1 + hour * (rate * (no + o3 - 2 * x) + light)
            x = x - wrong / slope
          end do
          if (x > min(no, o3)) x = min(no, o3)
          if (x < -no2) x = -no2
          c(i, j, k, 1) = no - x
          c(i, j, k, 2) = no2 + x
          c(i, j, k, 3) = o3 - x
        end do
      end do
    end do
  end subroutine react

  subroutine report(step)
    integer, intent(in) :: step
    integer :: gas
    real(real8) :: mean(gases)

    do gas = 1, gases
      mean(gas) = sum(c(:, :, :, gas)) / (n * n * height)
    end do
    write (*, '(a,i5,a,f7.2,a,3f11.6,a,f10.5)') 'step', step, ', hour', clock, ', mean', mean, &
        ', most', maxval(c(:, :, :, 1))
  end subroutine report

end program pollutant
