x=1
y="a b"

[ "$x" = 1 ] || show lost
z=2
show "$x" "$y" $z
A=5 show "$x"
export E1=1 E2="two"
declare -x E3=3
readonly R=9
typeset T=8
show $E1 $E2 $E3 $R $T
unset x
show "[$x]"
