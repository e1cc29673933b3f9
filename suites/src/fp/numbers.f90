! What the programs share: numeric arguments, reproducible random numbers, and the kind of reals.
module numbers
  implicit none
  integer, parameter :: real8 = selected_real_kind(15)
  integer, private :: state = 12345

contains

  ! Argument `place` as a number, or `otherwise`.
  integer function option(place, otherwise)
    integer, intent(in) :: place, otherwise
    character(len=32) :: text
    integer :: trouble

    option = otherwise
    if (command_argument_count() < place) return
    call get_command_argument(place, text)
    read (text, *, iostat=trouble) option
    if (trouble /= 0) then
      write (*, '(3a)') 'not a number: ', trim(text)
      stop 2
    end if
  end function option

  subroutine seed_draws(seed)
    integer, intent(in) :: seed

    state = 1 + modulo(seed * 7919 + 12345, 2147483646)
  end subroutine seed_draws

  ! Uniform in (0, 1): Lehmer's generator, by Schrage's division.
  real(real8) function draw()
    state = 16807 * modulo(state, 127773) - 2836 * (state / 127773)
    if (state <= 0) state = state + 2147483647
    draw = real(state, real8) / 2147483647.0_real8
  end function draw

end module numbers
