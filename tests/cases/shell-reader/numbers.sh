a=7 b=2
show $((a+b)) $((a*b)) $((a/b)) $((a%b)) $((-a/b)) $(( (a+1)*b )) $((a>b)) $((a-b*3))
let_me=$((a + $b))
show $let_me "$((${a}*10))"
gbs=128 n=5 gpus=8
show "mini=$((gbs / 4))" "per=$((gbs*n/gpus))"
((c = a + 1))
((c++))
show $c
