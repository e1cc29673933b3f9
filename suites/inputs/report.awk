# A report on comma-separated records: number,name,amount,category.
BEGIN { FS = "," }
NF != 4 { bad++; next }
{
  count[$4]++
  sum[$4] += $3
  if (!($4 in most) || $3 > most[$4]) { most[$4] = $3; who[$4] = $2 }
  letter = substr($2, 1, 1)
  initials[letter]++
}
$2 ~ /^[a-m].*[aeiou]$/ { matched++ }
$1 % 7 == 0 {
  name = $2
  gsub(/[aeiou]/, "", name)
  consonants += length(name)
  n = split($3, parts, ".")
  if (n == 2 && parts[2] > 50) { rounded++ }
}
{ check = (check * 31 + length($0) + index($2, "e")) % 65521 }
END {
  for (category in count) { names[++total] = category }
  for (i = 2; i <= total; i++) {
    for (j = i; j > 1 && names[j] < names[j - 1]; j--) {
      swap = names[j]; names[j] = names[j - 1]; names[j - 1] = swap
    }
  }
  for (i = 1; i <= total; i++) {
    c = names[i]
    printf "%-8s %7d %12.2f %9.2f %s\n", c, count[c], sum[c], most[c], toupper(who[c])
  }
  for (l in initials) { different++ }
  printf "%d matched, %d consonants, %d rounded, %d initials, check %d\n", matched, consonants, \
    rounded, different, check
}
