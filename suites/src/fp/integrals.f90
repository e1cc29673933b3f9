! Electron repulsion integrals of p functions, four atoms at a time: very long blocks without a
! branch, as in the Hermite expansion of McMurchie and Davidson with all loops written out.
! integrals [ATOMS [EXPONENTS [SEED]]]
program integrals
  use numbers
  implicit none
  real(real8), parameter :: pi = 3.14159265358979324_real8
  integer :: atoms, exponents, a, b, c, d, kept, dropped
  real(real8), allocatable :: place(:, :), exponent(:)
  real(real8) :: total, trace, largest

  atoms = option(1, 3)
  exponents = option(2, 2)
  call seed_draws(option(3, 1))
  allocate (place(3, atoms), exponent(exponents))
  call make_molecule()
  total = 0
  trace = 0
  largest = 0
  kept = 0
  dropped = 0
  do a = 1, atoms
    do b = 1, a
      do c = 1, a
        do d = 1, merge(b, c, c == a)
          call quartet(place(:, a), place(:, b), place(:, c), place(:, d))
        end do
      end do
    end do
  end do
  write (*, '(a,i9,a,i9)') 'kept', kept, ', dropped', dropped
  write (*, '(a,f16.8,a,f16.8,a,f16.8)') 'sum', total, ', trace', trace, ', largest', largest

contains

  ! Atoms on a bent chain.
  subroutine make_molecule()
    integer :: i

    do i = 1, atoms
      place(:, i) = [1.1_real8 * i + 0.2_real8 * draw(), 0.8_real8 * draw(), 0.8_real8 * draw()]
    end do
    do i = 1, exponents
      exponent(i) = 0.3_real8 * 2.7_real8**(i - 1) * (1 + 0.1_real8 * draw())
    end do
  end subroutine make_molecule

  ! All exponents of four atoms; products that are small everywhere are left out.
  subroutine quartet(a, b, c, d)
    real(real8), intent(in) :: a(3), b(3), c(3), d(3)
    real(real8) :: value(3, 3, 3, 3), left, right
    integer :: i, j, k, l, m, n

    do i = 1, exponents
      do j = 1, exponents
        left = overlap(exponent(i), exponent(j), a, b)
        do k = 1, exponents
          do l = 1, exponents
            right = overlap(exponent(k), exponent(l), c, d)
            if (left * right < 1.0e-4_real8) then
              dropped = dropped + 1
              cycle
            end if
            kept = kept + 1
            call repulsion(exponent(i), exponent(j), exponent(k), exponent(l), a, b, c, d, value)
            do n = 1, 3
              do m = 1, 3
                total = total + value(m, n, m, n) * left * right
                trace = trace + value(m, m, n, n) * left * right
                if (abs(value(m, n, n, m)) > largest) largest = abs(value(m, n, n, m))
              end do
            end do
          end do
        end do
      end do
    end do
  end subroutine quartet

  real(real8) function overlap(alpha, beta, a, b)
    real(real8), intent(in) :: alpha, beta, a(3), b(3)

    overlap = exp(-alpha * beta / (alpha + beta) * sum((a - b)**2))
  end function overlap

  ! Boys' function of orders 0 to 4: a series and downward recursion, or the limit for large t.
  subroutine boys_function(t, f)
    real(real8), intent(in) :: t
    real(real8), intent(out) :: f(0:4)
    real(real8) :: term, decay
    integer :: i

    decay = exp(-t)
    if (t > 30) then
      f(0) = 0.5_real8 * sqrt(pi / t)
      do i = 1, 4
        f(i) = ((2 * i - 1) * f(i - 1) - decay) / (2 * t)
      end do
    else
      term = 1.0_real8 / 9
      f(4) = term
      i = 0
      do while (term > 1.0e-15_real8 * f(4))
        i = i + 1
        term = term * t / (i + 4.5_real8)
        f(4) = f(4) + term
      end do
      f(4) = f(4) * decay
      do i = 3, 0, -1
        f(i) = (2 * t * f(i + 1) + decay) / (2 * i + 1)
      end do
    end if
  end subroutine boys_function

  ! value(i, j, k, l): the integral of p_i on a and p_j on b with p_k on c and p_l on d, without
  ! the factor of the overlaps.
  subroutine repulsion(za, zb, zc, zd, a, b, c, d, value)
    real(real8), intent(in) :: za, zb, zc, zd, a(3), b(3), c(3), d(3)
    real(real8), intent(out) :: value(3, 3, 3, 3)
    real(real8) :: p, q, alpha, scale, hp, hq, x, y, z, boys(0:4)
    real(real8) :: ax, ay, az, bx, by, bz, cx, cy, cz, dx, dy, dz
    real(real8) :: r000_0, r000_1, r000_2, r000_3, r000_4, r100_0, r100_1, r100_2, r100_3
    real(real8) :: r010_0, r010_1, r010_2, r010_3, r001_0, r001_1, r001_2, r001_3, r200_0
    real(real8) :: r200_1, r200_2, r110_0, r110_1, r110_2, r101_0, r101_1, r101_2, r020_0
    real(real8) :: r020_1, r020_2, r011_0, r011_1, r011_2, r002_0, r002_1, r002_2, r300_0
    real(real8) :: r300_1, r210_0, r210_1, r201_0, r201_1, r120_0, r120_1, r111_0, r111_1
    real(real8) :: r102_0, r102_1, r030_0, r030_1, r021_0, r021_1, r012_0, r012_1, r003_0
    real(real8) :: r003_1, r400_0, r310_0, r301_0, r220_0, r211_0, r202_0, r130_0, r121_0
    real(real8) :: r112_0, r103_0, r040_0, r031_0, r022_0, r013_0, r004_0, h11_000, h11_001
    real(real8) :: h11_002, h11_010, h11_011, h11_020, h11_100, h11_101, h11_110, h11_200
    real(real8) :: h12_000, h12_001, h12_002, h12_010, h12_011, h12_020, h12_100, h12_101
    real(real8) :: h12_110, h12_200, h13_000, h13_001, h13_002, h13_010, h13_011, h13_020
    real(real8) :: h13_100, h13_101, h13_110, h13_200, h21_000, h21_001, h21_002, h21_010
    real(real8) :: h21_011, h21_020, h21_100, h21_101, h21_110, h21_200, h22_000, h22_001
    real(real8) :: h22_002, h22_010, h22_011, h22_020, h22_100, h22_101, h22_110, h22_200
    real(real8) :: h23_000, h23_001, h23_002, h23_010, h23_011, h23_020, h23_100, h23_101
    real(real8) :: h23_110, h23_200, h31_000, h31_001, h31_002, h31_010, h31_011, h31_020
    real(real8) :: h31_100, h31_101, h31_110, h31_200, h32_000, h32_001, h32_002, h32_010
    real(real8) :: h32_011, h32_020, h32_100, h32_101, h32_110, h32_200, h33_000, h33_001
    real(real8) :: h33_002, h33_010, h33_011, h33_020, h33_100, h33_101, h33_110, h33_200

    p = za + zb
    q = zc + zd
    alpha = p * q / (p + q)
    scale = 2 * pi**2 * sqrt(pi) / (p * q * sqrt(p + q))
    hp = 0.5_real8 / p
    hq = 0.5_real8 / q
    ax = zb / p * (b(1) - a(1))
    ay = zb / p * (b(2) - a(2))
    az = zb / p * (b(3) - a(3))
    bx = za / p * (a(1) - b(1))
    by = za / p * (a(2) - b(2))
    bz = za / p * (a(3) - b(3))
    cx = zd / q * (d(1) - c(1))
    cy = zd / q * (d(2) - c(2))
    cz = zd / q * (d(3) - c(3))
    dx = zc / q * (c(1) - d(1))
    dy = zc / q * (c(2) - d(2))
    dz = zc / q * (c(3) - d(3))
    x = a(1) + ax - c(1) - cx
    y = a(2) + ay - c(2) - cy
    z = a(3) + az - c(3) - cz
    call boys_function(alpha * (x * x + y * y + z * z), boys)
    r000_0 = scale * (-2 * alpha)**0 * boys(0)
    r000_1 = scale * (-2 * alpha)**1 * boys(1)
    r000_2 = scale * (-2 * alpha)**2 * boys(2)
    r000_3 = scale * (-2 * alpha)**3 * boys(3)
    r000_4 = scale * (-2 * alpha)**4 * boys(4)
    r100_0 = x * r000_1
    r100_1 = x * r000_2
    r100_2 = x * r000_3
    r100_3 = x * r000_4
    r010_0 = y * r000_1
    r010_1 = y * r000_2
    r010_2 = y * r000_3
    r010_3 = y * r000_4
    r001_0 = z * r000_1
    r001_1 = z * r000_2
    r001_2 = z * r000_3
    r001_3 = z * r000_4
    r200_0 = x * r100_1 + r000_1
    r200_1 = x * r100_2 + r000_2
    r200_2 = x * r100_3 + r000_3
    r110_0 = x * r010_1
    r110_1 = x * r010_2
    r110_2 = x * r010_3
    r101_0 = x * r001_1
    r101_1 = x * r001_2
    r101_2 = x * r001_3
    r020_0 = y * r010_1 + r000_1
    r020_1 = y * r010_2 + r000_2
    r020_2 = y * r010_3 + r000_3
    r011_0 = y * r001_1
    r011_1 = y * r001_2
    r011_2 = y * r001_3
    r002_0 = z * r001_1 + r000_1
    r002_1 = z * r001_2 + r000_2
    r002_2 = z * r001_3 + r000_3
    r300_0 = x * r200_1 + 2 * r100_1
    r300_1 = x * r200_2 + 2 * r100_2
    r210_0 = x * r110_1 + r010_1
    r210_1 = x * r110_2 + r010_2
    r201_0 = x * r101_1 + r001_1
    r201_1 = x * r101_2 + r001_2
    r120_0 = x * r020_1
    r120_1 = x * r020_2
    r111_0 = x * r011_1
    r111_1 = x * r011_2
    r102_0 = x * r002_1
    r102_1 = x * r002_2
    r030_0 = y * r020_1 + 2 * r010_1
    r030_1 = y * r020_2 + 2 * r010_2
    r021_0 = y * r011_1 + r001_1
    r021_1 = y * r011_2 + r001_2
    r012_0 = y * r002_1
    r012_1 = y * r002_2
    r003_0 = z * r002_1 + 2 * r001_1
    r003_1 = z * r002_2 + 2 * r001_2
    r400_0 = x * r300_1 + 3 * r200_1
    r310_0 = x * r210_1 + 2 * r110_1
    r301_0 = x * r201_1 + 2 * r101_1
    r220_0 = x * r120_1 + r020_1
    r211_0 = x * r111_1 + r011_1
    r202_0 = x * r102_1 + r002_1
    r130_0 = x * r030_1
    r121_0 = x * r021_1
    r112_0 = x * r012_1
    r103_0 = x * r003_1
    r040_0 = y * r030_1 + 3 * r020_1
    r031_0 = y * r021_1 + 2 * r011_1
    r022_0 = y * r012_1 + r002_1
    r013_0 = y * r003_1
    r004_0 = z * r003_1 + 3 * r002_1
    h11_000 = (cx * dx + hq) * r000_0 - hq * (cx + dx) * r100_0 + hq * hq * r200_0
    h11_001 = (cx * dx + hq) * r001_0 - hq * (cx + dx) * r101_0 + hq * hq * r201_0
    h11_002 = (cx * dx + hq) * r002_0 - hq * (cx + dx) * r102_0 + hq * hq * r202_0
    h11_010 = (cx * dx + hq) * r010_0 - hq * (cx + dx) * r110_0 + hq * hq * r210_0
    h11_011 = (cx * dx + hq) * r011_0 - hq * (cx + dx) * r111_0 + hq * hq * r211_0
    h11_020 = (cx * dx + hq) * r020_0 - hq * (cx + dx) * r120_0 + hq * hq * r220_0
    h11_100 = (cx * dx + hq) * r100_0 - hq * (cx + dx) * r200_0 + hq * hq * r300_0
    h11_101 = (cx * dx + hq) * r101_0 - hq * (cx + dx) * r201_0 + hq * hq * r301_0
    h11_110 = (cx * dx + hq) * r110_0 - hq * (cx + dx) * r210_0 + hq * hq * r310_0
    h11_200 = (cx * dx + hq) * r200_0 - hq * (cx + dx) * r300_0 + hq * hq * r400_0
    value(1, 1, 1, 1) = (ax * bx + hp) * h11_000 + hp * (ax + bx) * h11_100 &
        + hp * hp * h11_200
    value(1, 2, 1, 1) = ax * by * h11_000 + hp * by * h11_100 + hp * ax * h11_010 &
        + hp * hp * h11_110
    value(1, 3, 1, 1) = ax * bz * h11_000 + hp * bz * h11_100 + hp * ax * h11_001 &
        + hp * hp * h11_101
    value(2, 1, 1, 1) = ay * bx * h11_000 + hp * bx * h11_010 + hp * ay * h11_100 &
        + hp * hp * h11_110
    value(2, 2, 1, 1) = (ay * by + hp) * h11_000 + hp * (ay + by) * h11_010 &
        + hp * hp * h11_020
    value(2, 3, 1, 1) = ay * bz * h11_000 + hp * bz * h11_010 + hp * ay * h11_001 &
        + hp * hp * h11_011
    value(3, 1, 1, 1) = az * bx * h11_000 + hp * bx * h11_001 + hp * az * h11_100 &
        + hp * hp * h11_101
    value(3, 2, 1, 1) = az * by * h11_000 + hp * by * h11_001 + hp * az * h11_010 &
        + hp * hp * h11_011
    value(3, 3, 1, 1) = (az * bz + hp) * h11_000 + hp * (az + bz) * h11_001 &
        + hp * hp * h11_002
    h12_000 = cx * dy * r000_0 - hq * dy * r100_0 - hq * cx * r010_0 + hq * hq * r110_0
    h12_001 = cx * dy * r001_0 - hq * dy * r101_0 - hq * cx * r011_0 + hq * hq * r111_0
    h12_002 = cx * dy * r002_0 - hq * dy * r102_0 - hq * cx * r012_0 + hq * hq * r112_0
    h12_010 = cx * dy * r010_0 - hq * dy * r110_0 - hq * cx * r020_0 + hq * hq * r120_0
    h12_011 = cx * dy * r011_0 - hq * dy * r111_0 - hq * cx * r021_0 + hq * hq * r121_0
    h12_020 = cx * dy * r020_0 - hq * dy * r120_0 - hq * cx * r030_0 + hq * hq * r130_0
    h12_100 = cx * dy * r100_0 - hq * dy * r200_0 - hq * cx * r110_0 + hq * hq * r210_0
    h12_101 = cx * dy * r101_0 - hq * dy * r201_0 - hq * cx * r111_0 + hq * hq * r211_0
    h12_110 = cx * dy * r110_0 - hq * dy * r210_0 - hq * cx * r120_0 + hq * hq * r220_0
    h12_200 = cx * dy * r200_0 - hq * dy * r300_0 - hq * cx * r210_0 + hq * hq * r310_0
    value(1, 1, 1, 2) = (ax * bx + hp) * h12_000 + hp * (ax + bx) * h12_100 &
        + hp * hp * h12_200
    value(1, 2, 1, 2) = ax * by * h12_000 + hp * by * h12_100 + hp * ax * h12_010 &
        + hp * hp * h12_110
    value(1, 3, 1, 2) = ax * bz * h12_000 + hp * bz * h12_100 + hp * ax * h12_001 &
        + hp * hp * h12_101
    value(2, 1, 1, 2) = ay * bx * h12_000 + hp * bx * h12_010 + hp * ay * h12_100 &
        + hp * hp * h12_110
    value(2, 2, 1, 2) = (ay * by + hp) * h12_000 + hp * (ay + by) * h12_010 &
        + hp * hp * h12_020
    value(2, 3, 1, 2) = ay * bz * h12_000 + hp * bz * h12_010 + hp * ay * h12_001 &
        + hp * hp * h12_011
    value(3, 1, 1, 2) = az * bx * h12_000 + hp * bx * h12_001 + hp * az * h12_100 &
        + hp * hp * h12_101
    value(3, 2, 1, 2) = az * by * h12_000 + hp * by * h12_001 + hp * az * h12_010 &
        + hp * hp * h12_011
    value(3, 3, 1, 2) = (az * bz + hp) * h12_000 + hp * (az + bz) * h12_001 &
        + hp * hp * h12_002
    h13_000 = cx * dz * r000_0 - hq * dz * r100_0 - hq * cx * r001_0 + hq * hq * r101_0
    h13_001 = cx * dz * r001_0 - hq * dz * r101_0 - hq * cx * r002_0 + hq * hq * r102_0
    h13_002 = cx * dz * r002_0 - hq * dz * r102_0 - hq * cx * r003_0 + hq * hq * r103_0
    h13_010 = cx * dz * r010_0 - hq * dz * r110_0 - hq * cx * r011_0 + hq * hq * r111_0
    h13_011 = cx * dz * r011_0 - hq * dz * r111_0 - hq * cx * r012_0 + hq * hq * r112_0
    h13_020 = cx * dz * r020_0 - hq * dz * r120_0 - hq * cx * r021_0 + hq * hq * r121_0
    h13_100 = cx * dz * r100_0 - hq * dz * r200_0 - hq * cx * r101_0 + hq * hq * r201_0
    h13_101 = cx * dz * r101_0 - hq * dz * r201_0 - hq * cx * r102_0 + hq * hq * r202_0
    h13_110 = cx * dz * r110_0 - hq * dz * r210_0 - hq * cx * r111_0 + hq * hq * r211_0
    h13_200 = cx * dz * r200_0 - hq * dz * r300_0 - hq * cx * r201_0 + hq * hq * r301_0
    value(1, 1, 1, 3) = (ax * bx + hp) * h13_000 + hp * (ax + bx) * h13_100 &
        + hp * hp * h13_200
    value(1, 2, 1, 3) = ax * by * h13_000 + hp * by * h13_100 + hp * ax * h13_010 &
        + hp * hp * h13_110
    value(1, 3, 1, 3) = ax * bz * h13_000 + hp * bz * h13_100 + hp * ax * h13_001 &
        + hp * hp * h13_101
    value(2, 1, 1, 3) = ay * bx * h13_000 + hp * bx * h13_010 + hp * ay * h13_100 &
        + hp * hp * h13_110
    value(2, 2, 1, 3) = (ay * by + hp) * h13_000 + hp * (ay + by) * h13_010 &
        + hp * hp * h13_020
    value(2, 3, 1, 3) = ay * bz * h13_000 + hp * bz * h13_010 + hp * ay * h13_001 &
        + hp * hp * h13_011
    value(3, 1, 1, 3) = az * bx * h13_000 + hp * bx * h13_001 + hp * az * h13_100 &
        + hp * hp * h13_101
    value(3, 2, 1, 3) = az * by * h13_000 + hp * by * h13_001 + hp * az * h13_010 &
        + hp * hp * h13_011
    value(3, 3, 1, 3) = (az * bz + hp) * h13_000 + hp * (az + bz) * h13_001 &
        + hp * hp * h13_002
    h21_000 = cy * dx * r000_0 - hq * dx * r010_0 - hq * cy * r100_0 + hq * hq * r110_0
    h21_001 = cy * dx * r001_0 - hq * dx * r011_0 - hq * cy * r101_0 + hq * hq * r111_0
    h21_002 = cy * dx * r002_0 - hq * dx * r012_0 - hq * cy * r102_0 + hq * hq * r112_0
    h21_010 = cy * dx * r010_0 - hq * dx * r020_0 - hq * cy * r110_0 + hq * hq * r120_0
    h21_011 = cy * dx * r011_0 - hq * dx * r021_0 - hq * cy * r111_0 + hq * hq * r121_0
    h21_020 = cy * dx * r020_0 - hq * dx * r030_0 - hq * cy * r120_0 + hq * hq * r130_0
    h21_100 = cy * dx * r100_0 - hq * dx * r110_0 - hq * cy * r200_0 + hq * hq * r210_0
    h21_101 = cy * dx * r101_0 - hq * dx * r111_0 - hq * cy * r201_0 + hq * hq * r211_0
    h21_110 = cy * dx * r110_0 - hq * dx * r120_0 - hq * cy * r210_0 + hq * hq * r220_0
    h21_200 = cy * dx * r200_0 - hq * dx * r210_0 - hq * cy * r300_0 + hq * hq * r310_0
    value(1, 1, 2, 1) = (ax * bx + hp) * h21_000 + hp * (ax + bx) * h21_100 &
        + hp * hp * h21_200
    value(1, 2, 2, 1) = ax * by * h21_000 + hp * by * h21_100 + hp * ax * h21_010 &
        + hp * hp * h21_110
    value(1, 3, 2, 1) = ax * bz * h21_000 + hp * bz * h21_100 + hp * ax * h21_001 &
        + hp * hp * h21_101
    value(2, 1, 2, 1) = ay * bx * h21_000 + hp * bx * h21_010 + hp * ay * h21_100 &
        + hp * hp * h21_110
    value(2, 2, 2, 1) = (ay * by + hp) * h21_000 + hp * (ay + by) * h21_010 &
        + hp * hp * h21_020
    value(2, 3, 2, 1) = ay * bz * h21_000 + hp * bz * h21_010 + hp * ay * h21_001 &
        + hp * hp * h21_011
    value(3, 1, 2, 1) = az * bx * h21_000 + hp * bx * h21_001 + hp * az * h21_100 &
        + hp * hp * h21_101
    value(3, 2, 2, 1) = az * by * h21_000 + hp * by * h21_001 + hp * az * h21_010 &
        + hp * hp * h21_011
    value(3, 3, 2, 1) = (az * bz + hp) * h21_000 + hp * (az + bz) * h21_001 &
        + hp * hp * h21_002
    h22_000 = (cy * dy + hq) * r000_0 - hq * (cy + dy) * r010_0 + hq * hq * r020_0
    h22_001 = (cy * dy + hq) * r001_0 - hq * (cy + dy) * r011_0 + hq * hq * r021_0
    h22_002 = (cy * dy + hq) * r002_0 - hq * (cy + dy) * r012_0 + hq * hq * r022_0
    h22_010 = (cy * dy + hq) * r010_0 - hq * (cy + dy) * r020_0 + hq * hq * r030_0
    h22_011 = (cy * dy + hq) * r011_0 - hq * (cy + dy) * r021_0 + hq * hq * r031_0
    h22_020 = (cy * dy + hq) * r020_0 - hq * (cy + dy) * r030_0 + hq * hq * r040_0
    h22_100 = (cy * dy + hq) * r100_0 - hq * (cy + dy) * r110_0 + hq * hq * r120_0
    h22_101 = (cy * dy + hq) * r101_0 - hq * (cy + dy) * r111_0 + hq * hq * r121_0
    h22_110 = (cy * dy + hq) * r110_0 - hq * (cy + dy) * r120_0 + hq * hq * r130_0
    h22_200 = (cy * dy + hq) * r200_0 - hq * (cy + dy) * r210_0 + hq * hq * r220_0
    value(1, 1, 2, 2) = (ax * bx + hp) * h22_000 + hp * (ax + bx) * h22_100 &
        + hp * hp * h22_200
    value(1, 2, 2, 2) = ax * by * h22_000 + hp * by * h22_100 + hp * ax * h22_010 &
        + hp * hp * h22_110
    value(1, 3, 2, 2) = ax * bz * h22_000 + hp * bz * h22_100 + hp * ax * h22_001 &
        + hp * hp * h22_101
    value(2, 1, 2, 2) = ay * bx * h22_000 + hp * bx * h22_010 + hp * ay * h22_100 &
        + hp * hp * h22_110
    value(2, 2, 2, 2) = (ay * by + hp) * h22_000 + hp * (ay + by) * h22_010 &
        + hp * hp * h22_020
    value(2, 3, 2, 2) = ay * bz * h22_000 + hp * bz * h22_010 + hp * ay * h22_001 &
        + hp * hp * h22_011
    value(3, 1, 2, 2) = az * bx * h22_000 + hp * bx * h22_001 + hp * az * h22_100 &
        + hp * hp * h22_101
    value(3, 2, 2, 2) = az * by * h22_000 + hp * by * h22_001 + hp * az * h22_010 &
        + hp * hp * h22_011
    value(3, 3, 2, 2) = (az * bz + hp) * h22_000 + hp * (az + bz) * h22_001 &
        + hp * hp * h22_002
    h23_000 = cy * dz * r000_0 - hq * dz * r010_0 - hq * cy * r001_0 + hq * hq * r011_0
    h23_001 = cy * dz * r001_0 - hq * dz * r011_0 - hq * cy * r002_0 + hq * hq * r012_0
    h23_002 = cy * dz * r002_0 - hq * dz * r012_0 - hq * cy * r003_0 + hq * hq * r013_0
    h23_010 = cy * dz * r010_0 - hq * dz * r020_0 - hq * cy * r011_0 + hq * hq * r021_0
    h23_011 = cy * dz * r011_0 - hq * dz * r021_0 - hq * cy * r012_0 + hq * hq * r022_0
    h23_020 = cy * dz * r020_0 - hq * dz * r030_0 - hq * cy * r021_0 + hq * hq * r031_0
    h23_100 = cy * dz * r100_0 - hq * dz * r110_0 - hq * cy * r101_0 + hq * hq * r111_0
    h23_101 = cy * dz * r101_0 - hq * dz * r111_0 - hq * cy * r102_0 + hq * hq * r112_0
    h23_110 = cy * dz * r110_0 - hq * dz * r120_0 - hq * cy * r111_0 + hq * hq * r121_0
    h23_200 = cy * dz * r200_0 - hq * dz * r210_0 - hq * cy * r201_0 + hq * hq * r211_0
    value(1, 1, 2, 3) = (ax * bx + hp) * h23_000 + hp * (ax + bx) * h23_100 &
        + hp * hp * h23_200
    value(1, 2, 2, 3) = ax * by * h23_000 + hp * by * h23_100 + hp * ax * h23_010 &
        + hp * hp * h23_110
    value(1, 3, 2, 3) = ax * bz * h23_000 + hp * bz * h23_100 + hp * ax * h23_001 &
        + hp * hp * h23_101
    value(2, 1, 2, 3) = ay * bx * h23_000 + hp * bx * h23_010 + hp * ay * h23_100 &
        + hp * hp * h23_110
    value(2, 2, 2, 3) = (ay * by + hp) * h23_000 + hp * (ay + by) * h23_010 &
        + hp * hp * h23_020
    value(2, 3, 2, 3) = ay * bz * h23_000 + hp * bz * h23_010 + hp * ay * h23_001 &
        + hp * hp * h23_011
    value(3, 1, 2, 3) = az * bx * h23_000 + hp * bx * h23_001 + hp * az * h23_100 &
        + hp * hp * h23_101
    value(3, 2, 2, 3) = az * by * h23_000 + hp * by * h23_001 + hp * az * h23_010 &
        + hp * hp * h23_011
    value(3, 3, 2, 3) = (az * bz + hp) * h23_000 + hp * (az + bz) * h23_001 &
        + hp * hp * h23_002
    h31_000 = cz * dx * r000_0 - hq * dx * r001_0 - hq * cz * r100_0 + hq * hq * r101_0
    h31_001 = cz * dx * r001_0 - hq * dx * r002_0 - hq * cz * r101_0 + hq * hq * r102_0
    h31_002 = cz * dx * r002_0 - hq * dx * r003_0 - hq * cz * r102_0 + hq * hq * r103_0
    h31_010 = cz * dx * r010_0 - hq * dx * r011_0 - hq * cz * r110_0 + hq * hq * r111_0
    h31_011 = cz * dx * r011_0 - hq * dx * r012_0 - hq * cz * r111_0 + hq * hq * r112_0
    h31_020 = cz * dx * r020_0 - hq * dx * r021_0 - hq * cz * r120_0 + hq * hq * r121_0
    h31_100 = cz * dx * r100_0 - hq * dx * r101_0 - hq * cz * r200_0 + hq * hq * r201_0
    h31_101 = cz * dx * r101_0 - hq * dx * r102_0 - hq * cz * r201_0 + hq * hq * r202_0
    h31_110 = cz * dx * r110_0 - hq * dx * r111_0 - hq * cz * r210_0 + hq * hq * r211_0
    h31_200 = cz * dx * r200_0 - hq * dx * r201_0 - hq * cz * r300_0 + hq * hq * r301_0
    value(1, 1, 3, 1) = (ax * bx + hp) * h31_000 + hp * (ax + bx) * h31_100 &
        + hp * hp * h31_200
    value(1, 2, 3, 1) = ax * by * h31_000 + hp * by * h31_100 + hp * ax * h31_010 &
        + hp * hp * h31_110
    value(1, 3, 3, 1) = ax * bz * h31_000 + hp * bz * h31_100 + hp * ax * h31_001 &
        + hp * hp * h31_101
    value(2, 1, 3, 1) = ay * bx * h31_000 + hp * bx * h31_010 + hp * ay * h31_100 &
        + hp * hp * h31_110
    value(2, 2, 3, 1) = (ay * by + hp) * h31_000 + hp * (ay + by) * h31_010 &
        + hp * hp * h31_020
    value(2, 3, 3, 1) = ay * bz * h31_000 + hp * bz * h31_010 + hp * ay * h31_001 &
        + hp * hp * h31_011
    value(3, 1, 3, 1) = az * bx * h31_000 + hp * bx * h31_001 + hp * az * h31_100 &
        + hp * hp * h31_101
    value(3, 2, 3, 1) = az * by * h31_000 + hp * by * h31_001 + hp * az * h31_010 &
        + hp * hp * h31_011
    value(3, 3, 3, 1) = (az * bz + hp) * h31_000 + hp * (az + bz) * h31_001 &
        + hp * hp * h31_002
    h32_000 = cz * dy * r000_0 - hq * dy * r001_0 - hq * cz * r010_0 + hq * hq * r011_0
    h32_001 = cz * dy * r001_0 - hq * dy * r002_0 - hq * cz * r011_0 + hq * hq * r012_0
    h32_002 = cz * dy * r002_0 - hq * dy * r003_0 - hq * cz * r012_0 + hq * hq * r013_0
    h32_010 = cz * dy * r010_0 - hq * dy * r011_0 - hq * cz * r020_0 + hq * hq * r021_0
    h32_011 = cz * dy * r011_0 - hq * dy * r012_0 - hq * cz * r021_0 + hq * hq * r022_0
    h32_020 = cz * dy * r020_0 - hq * dy * r021_0 - hq * cz * r030_0 + hq * hq * r031_0
    h32_100 = cz * dy * r100_0 - hq * dy * r101_0 - hq * cz * r110_0 + hq * hq * r111_0
    h32_101 = cz * dy * r101_0 - hq * dy * r102_0 - hq * cz * r111_0 + hq * hq * r112_0
    h32_110 = cz * dy * r110_0 - hq * dy * r111_0 - hq * cz * r120_0 + hq * hq * r121_0
    h32_200 = cz * dy * r200_0 - hq * dy * r201_0 - hq * cz * r210_0 + hq * hq * r211_0
    value(1, 1, 3, 2) = (ax * bx + hp) * h32_000 + hp * (ax + bx) * h32_100 &
        + hp * hp * h32_200
    value(1, 2, 3, 2) = ax * by * h32_000 + hp * by * h32_100 + hp * ax * h32_010 &
        + hp * hp * h32_110
    value(1, 3, 3, 2) = ax * bz * h32_000 + hp * bz * h32_100 + hp * ax * h32_001 &
        + hp * hp * h32_101
    value(2, 1, 3, 2) = ay * bx * h32_000 + hp * bx * h32_010 + hp * ay * h32_100 &
        + hp * hp * h32_110
    value(2, 2, 3, 2) = (ay * by + hp) * h32_000 + hp * (ay + by) * h32_010 &
        + hp * hp * h32_020
    value(2, 3, 3, 2) = ay * bz * h32_000 + hp * bz * h32_010 + hp * ay * h32_001 &
        + hp * hp * h32_011
    value(3, 1, 3, 2) = az * bx * h32_000 + hp * bx * h32_001 + hp * az * h32_100 &
        + hp * hp * h32_101
    value(3, 2, 3, 2) = az * by * h32_000 + hp * by * h32_001 + hp * az * h32_010 &
        + hp * hp * h32_011
    value(3, 3, 3, 2) = (az * bz + hp) * h32_000 + hp * (az + bz) * h32_001 &
        + hp * hp * h32_002
    h33_000 = (cz * dz + hq) * r000_0 - hq * (cz + dz) * r001_0 + hq * hq * r002_0
    h33_001 = (cz * dz + hq) * r001_0 - hq * (cz + dz) * r002_0 + hq * hq * r003_0
    h33_002 = (cz * dz + hq) * r002_0 - hq * (cz + dz) * r003_0 + hq * hq * r004_0
    h33_010 = (cz * dz + hq) * r010_0 - hq * (cz + dz) * r011_0 + hq * hq * r012_0
    h33_011 = (cz * dz + hq) * r011_0 - hq * (cz + dz) * r012_0 + hq * hq * r013_0
    h33_020 = (cz * dz + hq) * r020_0 - hq * (cz + dz) * r021_0 + hq * hq * r022_0
    h33_100 = (cz * dz + hq) * r100_0 - hq * (cz + dz) * r101_0 + hq * hq * r102_0
    h33_101 = (cz * dz + hq) * r101_0 - hq * (cz + dz) * r102_0 + hq * hq * r103_0
    h33_110 = (cz * dz + hq) * r110_0 - hq * (cz + dz) * r111_0 + hq * hq * r112_0
    h33_200 = (cz * dz + hq) * r200_0 - hq * (cz + dz) * r201_0 + hq * hq * r202_0
    value(1, 1, 3, 3) = (ax * bx + hp) * h33_000 + hp * (ax + bx) * h33_100 &
        + hp * hp * h33_200
    value(1, 2, 3, 3) = ax * by * h33_000 + hp * by * h33_100 + hp * ax * h33_010 &
        + hp * hp * h33_110
    value(1, 3, 3, 3) = ax * bz * h33_000 + hp * bz * h33_100 + hp * ax * h33_001 &
        + hp * hp * h33_101
    value(2, 1, 3, 3) = ay * bx * h33_000 + hp * bx * h33_010 + hp * ay * h33_100 &
        + hp * hp * h33_110
    value(2, 2, 3, 3) = (ay * by + hp) * h33_000 + hp * (ay + by) * h33_010 &
        + hp * hp * h33_020
    value(2, 3, 3, 3) = ay * bz * h33_000 + hp * bz * h33_010 + hp * ay * h33_001 &
        + hp * hp * h33_011
    value(3, 1, 3, 3) = az * bx * h33_000 + hp * bx * h33_001 + hp * az * h33_100 &
        + hp * hp * h33_101
    value(3, 2, 3, 3) = az * by * h33_000 + hp * by * h33_001 + hp * az * h33_010 &
        + hp * hp * h33_011
    value(3, 3, 3, 3) = (az * bz + hp) * h33_000 + hp * (az + bz) * h33_001 &
        + hp * hp * h33_002
  end subroutine repulsion

end program integrals
