# ---- main ----------------------------------------------------------------------------------------------------------

ENDED='' LEFT='' GROUP='' ZOMBIES='' WITHIN='' BOX=''
if [ "${1:-}" = inside ]; then
    # The host's user is to read what the container's user writes; 0700 on the run directory keeps others out.
    WITHIN=1
    umask 022
    shift
fi
case ${1:-} in
    # The script itself may come on stdin, so no command may read from there.
    accept | retry | checkpoints | hold | held | job | node | run | follow | sample | lead | stop | await | look | report | manifests | withdraw | leases | jobs | facts)
        "$@" </dev/null
        ;;
    # Its stdin is the node's hold on it.
    guard) "$@" ;;
    *) fail "usage: supervise.sh accept|hold|run|stop|report …" ;;
esac
