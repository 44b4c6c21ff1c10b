launch() {
  local name=$1
  shift
  show "$name" "$@" $#
  [ "$name" = stop ] && return 1
  show after
}
name=outer
launch first a "b c"
launch stop
show "$name"
function twice { show "$1" "$1"; }
twice x
( cd /tmp; inner=1; show "$PWD" )
show "[$inner]"
set -- p "q r"
show "$1" "$2" $# "$@"
shift
show "$@"
cmd="show from a variable"
$cmd
eval "show 'from eval' \"$name\""
set -- a "b c" d
show "${@:2}" ${@:3}
