A=1 B="two words" C='$A stays' D=$A$A
show "$A" $B "$B" $C "$C" $D ${A}x "${B}y" "$NOT_SET" a"b"'c'\ d e\ f
E=${A:-no} F=${NOT_SET:-"$B"} G=${NOT_SET-plain} H=${NOT_SET:=kept} I=${A:+yes} J=${NOT_SET_EITHER:+yes}
show "$E" "$F" "$G" "$H" "$NOT_SET" "$I" "[$J]"
K=/data/models/Qwen2.5-7B.tar.gz
show "${K##*/}" "${K%/*}" "${K%.*}" "${K%%.*}" "${K#*/}" "${#K}" "${K:1:4}" "${K: -2}" "${K/models/weights}" "${K//a/o}"
L=Name
show "${L^^}" "${L,,}" "${L,}" ~/x "$HOME/y" x=~/z
M=~/models N=a:~/b
show "$M" "a\"b\$c\\d\e" $'tab\tnew' "multi
line" con\
tinued
P=L
show "${!P}"
Q+=x Q+=y
show "$Q"
show "$A $B ${A}  ${B} $(echo x) $((1+1)) $A" "
  $A $B \
  ${A} $A" "a $A" " $A" "$A "
