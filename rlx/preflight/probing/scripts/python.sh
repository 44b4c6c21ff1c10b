# PROGRAM PYTHON WORKDIR PATH_PREFIX SETUP ARGUMENT...: a Python program in the environment that a launch would have.
# `docker exec` skips profiles, so CANN's scripts are sourced here, as launch.sh does. SETUP holds one path a line.
program=$1 python=$2 workdir=$3 prefix=$4 setup=$5
shift 5
# In a function of its own: the scripts look at their arguments, and would see ours.
# shellcheck disable=SC1090  # it is the host's
load() { if [ -r "$script" ]; then . "$script"; fi >/dev/null 2>&1; }
for script in /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/nnal/atb/set_env.sh; do load; done
while IFS= read -r script; do
    case $script in "~"/*) script=$HOME${script#"~"} ;; esac
    [ -z "$script" ] || load
done <<END_OF_SETUP
$setup
END_OF_SETUP
case $python in "~"/*) python=$HOME${python#"~"} ;; esac
case $workdir in "~"/*) workdir=$HOME${workdir#"~"} ;; esac
[ -z "$prefix" ] || PATH=$prefix:$PATH
[ -z "$workdir" ] || cd "$workdir" || exit
exec "$python" -c "$program" "$@"
