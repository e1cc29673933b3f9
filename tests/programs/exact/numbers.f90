! Arrays, do loops, recursion, formatted and internal input and output, select case, derived types.
module shapes
  implicit none
  type :: point
    real(8) :: x, y
    integer :: tag
  end type
contains
  recursive integer function fib(n) result(r)
    integer, intent(in) :: n
    if (n < 2) then
      r = n
    else
      r = fib(n - 1) + fib(n - 2)
    end if
  end function
  pure real(8) function norm(p)
    type(point), intent(in) :: p
    norm = sqrt(p%x**2 + p%y**2)
  end function
  subroutine relax(a, steps)
    real(8), intent(inout) :: a(:, :)
    integer, intent(in) :: steps
    integer :: i, j, s
    outer: do s = 1, steps
      do j = 2, size(a, 2) - 1
        do i = 2, size(a, 1) - 1
          if (mod(i + j, 5) == 0) cycle
          a(i, j) = 0.25d0 * (a(i-1, j) + a(i+1, j) + a(i, j-1) + a(i, j+1))
          if (a(i, j) > 1d6) exit outer
        end do
      end do
    end do outer
  end subroutine
end module

program numbers
  use shapes
  implicit none
  real(8) :: grid(9, 9), m(4, 4)
  real(16) :: wide
  complex(8) :: z
  integer :: i, kinds(4), got
  type(point) :: p
  character(len=40) :: line
  integer, allocatable :: list(:)
  grid = 0
  grid(1, :) = 100
  grid(:, 9) = [(real(i, 8), i = 1, 9)]
  call relax(grid, 8)
  write (*, '(a, f10.4, 1x, es12.4)') 'grid ', grid(5, 5), sum(grid)
  kinds = 0
  do i = 1, 30
    select case (mod(i * 7, 11))
    case (0:2)
      kinds(1) = kinds(1) + 1
    case (3, 5, 7)
      kinds(2) = kinds(2) + i
    case (9:)
      kinds(3) = kinds(3) - 1
    case default
      kinds(4) = kinds(4) + 1
    end select
  end do
  print *, kinds, fib(11)
  forall (i = 1:4) m(i, :) = [1, 2, 3, 4] * i
  m = matmul(m, transpose(m))
  p = point(3d0, 4d0, 7)
  z = cmplx(1d0, 2d0, 8)**3
  wide = 2
  wide = sqrt(wide) * 3
  print '(4f8.1)', m(1:2, :)
  write (line, '(i5, f8.3, l3)') p%tag, norm(p), any(m > 50)
  read (line, *) got
  write (*, *) trim(line), got, real(z), aimag(z)
  write (*, '(f30.25)') wide
  allocate (list(20))
  list = [(mod(i * 13, 17), i = 1, 20)]
  write (*, '(20i3)') pack(list, list > 5)
  write (*, '(a, z8, o8, b12)') 'bases', 255, 64, maxval(list)
  if (count(list == 3) > 0) stop 3
end program
