# START PROGRAM PYTHON WORKDIR PATH_PREFIX SETUP ENVIRONMENT ARGUMENT...: a Python program in the environment that a launch would
# have; START runs it, with WORKDIR as its first argument.
# `docker exec` skips profiles, so CANN's scripts are sourced here, as launch.sh does. SETUP holds one path a line,
# ENVIRONMENT the commands that export the variables of the host's entry.
start=$1 program=$2 python=$3 workdir=$4 prefix=$5 setup=$6
environment=$7
shift 7
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
eval "$environment"
[ -z "$prefix" ] || PATH=$prefix:$PATH
[ -z "$workdir" ] || cd "$workdir" || exit
case $python in
/*) ;;
*/*) python=$PWD/$python ;;
esac
# An empty entry of PYTHONPATH, which CANN's scripts leave, is the folder that Python starts in.
cd /
exec "$python" -c "$start" "$program" "$workdir" "$@"
