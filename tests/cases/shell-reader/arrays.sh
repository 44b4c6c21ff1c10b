a=(one "two three" $HOME)
show "${a[@]}" "${a[1]}" "${#a[@]}" "${a[-1]}" ${a[1]} "x${a[0]}y" "${a[*]}"
a+=(four)
a[0]=zero
show "${a[@]}" "pre${a[@]}post"
empty=()
show "${empty[@]}" end
COMMON=(
  data.train=/a/b.parquet  # a comment
  "data.files=['x','y']"
  +key.with=1
)
show -m module "${COMMON[@]}" last=1
