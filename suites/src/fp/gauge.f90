! A Monte Carlo simulation of SU(2) gauge fields on a four-dimensional lattice: heat bath and
! over-relaxation of links, and the mean plaquette.
! gauge [SIDE [SWEEPS [SEED]]]
program gauge
  use numbers
  implicit none
  real(real8), parameter :: beta = 2.3_real8, pi = 3.14159265358979324_real8
  integer :: side, sweeps, sweep, sites, refused
  ! A link is a unit quaternion: link(:, direction, site).
  real(real8), allocatable :: link(:, :, :)
  integer, allocatable :: ahead(:, :), behind(:, :)

  side = option(1, 4)
  sweeps = option(2, 3)
  call seed_draws(option(3, 1))
  sites = side**4
  allocate (link(4, 4, sites), ahead(4, sites), behind(4, sites))
  call neighbours()
  call start_links()
  refused = 0
  do sweep = 1, sweeps
    call update(mod(sweep, 3) /= 0)
    if (mod(sweep, 5) == 0 .or. sweep == sweeps) then
      write (*, '(a,i4,a,f10.6,a,f10.6)') 'sweep', sweep, ', plaquette', plaquette(), ', loop', loop()
    end if
  end do
  write (*, '(a,i8)') 'refused', refused

contains

  subroutine neighbours()
    integer :: site, direction, step, place

    do site = 1, sites
      step = 1
      do direction = 1, 4
        place = mod((site - 1) / step, side)
        ahead(direction, site) = site + step
        if (place == side - 1) ahead(direction, site) = site + step - side * step
        behind(direction, site) = site - step
        if (place == 0) behind(direction, site) = site - step + side * step
        step = step * side
      end do
    end do
  end subroutine neighbours

  ! Half of the lattice ordered, half of it not.
  subroutine start_links()
    integer :: site, direction, k
    real(real8) :: q(4)

    do site = 1, sites
      do direction = 1, 4
        q = [1, 0, 0, 0]
        if (site > sites / 2) then
          do k = 1, 4
            q(k) = 2 * draw() - 1
          end do
          q = q / sqrt(sum(q**2))
        end if
        link(:, direction, site) = q
      end do
    end do
  end subroutine start_links

  pure function times(a, b) result(c)
    real(real8), intent(in) :: a(4), b(4)
    real(real8) :: c(4)

    c(1) = a(1) * b(1) - a(2) * b(2) - a(3) * b(3) - a(4) * b(4)
    c(2) = a(1) * b(2) + a(2) * b(1) + a(3) * b(4) - a(4) * b(3)
    c(3) = a(1) * b(3) - a(2) * b(4) + a(3) * b(1) + a(4) * b(2)
    c(4) = a(1) * b(4) + a(2) * b(3) - a(3) * b(2) + a(4) * b(1)
  end function times

  pure function inverse(a) result(c)
    real(real8), intent(in) :: a(4)
    real(real8) :: c(4)

    c = [a(1), -a(2), -a(3), -a(4)]
  end function inverse

  ! Sum of the six open plaquettes around a link.
  subroutine staple(direction, site, total)
    integer, intent(in) :: direction, site
    real(real8), intent(out) :: total(4)
    integer :: other, next, below

    total = 0
    next = ahead(direction, site)
    do other = 1, 4
      if (other == direction) cycle
      total = total + times(times(link(:, other, next), &
          inverse(link(:, direction, ahead(other, site)))), inverse(link(:, other, site)))
      below = behind(other, site)
      total = total + times(times(inverse(link(:, other, ahead(direction, below))), &
          inverse(link(:, direction, below))), link(:, other, below))
    end do
  end subroutine staple

  ! A link distributed as the heat bath of strength a asks, by rejection.
  subroutine heat_bath(a, q)
    real(real8), intent(in) :: a
    real(real8), intent(out) :: q(4)
    real(real8) :: least, cosine, angle, radius

    least = exp(-2 * a)
    do
      q(1) = 1 + log(least + draw() * (1 - least)) / a
      if (draw()**2 <= 1 - q(1)**2) exit
      refused = refused + 1
    end do
    cosine = 2 * draw() - 1
    angle = 2 * pi * draw()
    radius = sqrt(max(1 - q(1)**2, 0.0_real8))
    q(2) = radius * cosine
    radius = radius * sqrt(1 - cosine**2)
    q(3) = radius * cos(angle)
    q(4) = radius * sin(angle)
  end subroutine heat_bath

  subroutine update(random)
    logical, intent(in) :: random
    integer :: direction, site
    real(real8) :: around(4), size, fresh(4)

    do direction = 1, 4
      do site = 1, sites
        call staple(direction, site, around)
        size = sqrt(sum(around**2))
        if (size < 1.0e-10_real8) cycle
        around = around / size
        if (random) then
          call heat_bath(beta * size, fresh)
          fresh = times(fresh, inverse(around))
        else
          fresh = inverse(times(times(around, link(:, direction, site)), around))
        end if
        link(:, direction, site) = fresh / sqrt(sum(fresh**2))
      end do
    end do
  end subroutine update

  real(real8) function plaquette()
    integer :: site, a, b
    real(real8) :: q(4)

    plaquette = 0
    do site = 1, sites
      do a = 1, 3
        do b = a + 1, 4
          q = times(times(link(:, a, site), link(:, b, ahead(a, site))), &
              inverse(times(link(:, b, site), link(:, a, ahead(b, site)))))
          plaquette = plaquette + q(1)
        end do
      end do
    end do
    plaquette = plaquette / (6 * sites)
  end function plaquette

  ! Mean of the loops that close around the lattice in the last direction.
  real(real8) function loop()
    integer :: site, at, step, loops
    real(real8) :: q(4)

    loop = 0
    loops = 0
    do site = 1, sites / side
      q = [1, 0, 0, 0]
      at = site
      do step = 1, side
        q = times(q, link(:, 4, at))
        at = ahead(4, at)
      end do
      loop = loop + abs(q(1))
      loops = loops + 1
    end do
    loop = loop / loops
  end function loop

end program gauge
