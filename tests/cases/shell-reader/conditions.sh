X=1
if [ "$X" = 1 ]; then show then; else show else; fi
if [[ $X == 2 ]]; then show no; elif [[ $X -gt 0 && -n $X ]]; then show elif; else show else; fi
[ -z "$Y" ] && Y=given
[ -n "$Y" ] || Y=other
show "$Y"
[[ "$Y" == giv* ]] && show glob
[ "$X" -eq 1 -a "$Y" = given ] && show both
if ! [ "$X" = 2 ]; then show not; fi
case "$Y" in
  a|b) show a;;
  giv*) show case;;
  *) show any;;
esac
false || show or
true && show and
test "$X" -lt 5 && show less
if (( X > 0 )); then show arithmetic; fi
[ "$Z" = "" ] && show unset
[ -v X ] && show there
if [ "$X" = 3 ] || [ "$X" = 1 ]; then show one; fi
