program relax
  implicit none
  integer, parameter :: n = 60
  real(8) :: grid(0:n, 0:n), next(0:n, 0:n), change
  real(16) :: wide
  complex(8) :: turn, point
  integer :: i, j, round
  character(len=40) :: text
  grid = 0
  do i = 0, n
    grid(i, 0) = sin(i * 0.1d0)
    grid(0, i) = 1d0 / (i + 1)
  end do
  do round = 1, 80
    change = 0
    do j = 1, n - 1
      do i = 1, n - 1
        next(i, j) = 0.25d0 * (grid(i-1, j) + grid(i+1, j) + grid(i, j-1) + grid(i, j+1))
        change = max(change, abs(next(i, j) - grid(i, j)))
      end do
    end do
    grid(1:n-1, 1:n-1) = next(1:n-1, 1:n-1)
    if (mod(round, 10) == 0) print '(i4, es24.16)', round, change
  end do
  turn = exp((0d0, 0.1d0))
  point = (1d0, 0d0)
  do i = 1, 1000
    point = point * turn
  end do
  wide = sqrt(2.0_16)
  write (text, '(2f12.8)') point
  print '(a)', trim(text)
  print *, wide, sum(grid), count(grid > 0.1d0), maxloc(grid)
end program
