for x in a "b c" {1..3}; do show "$x"; done
for ((i=0; i<3; i++)); do show $i; done
n=0
while [ $n -lt 3 ]; do n=$((n+1)); [ $n -eq 2 ] && continue; show w$n; done
until [ $n -eq 0 ]; do n=$((n-1)); if [ $n -eq 1 ]; then break; fi; show u$n; done
for s in $(seq 1 2); do show s$s; done
list="p q"
for x in $list; do show $x; done
for x in "$list"; do show "$x"; done
