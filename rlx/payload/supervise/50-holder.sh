# ---- the holder ----------------------------------------------------------------------------------------------------

startable() {
    find_attempt "$1"
    [ ! -e "$STATE/$STARTED_DIR" ] && [ ! -e "$STATE/$EXIT_FILE" ] && [ ! -e "$1/$STOP_FILE" ] &&
        [ ! -e "$STATE/$STOP_FILE" ] && ! withdrawn "$1"
}

hold() {
    run=$1 leases=$2 kind=$3 wanted=$4 CONTAINER=${5-} INNER=${6-} SELF=$0
    # The terminal may go away with tmux, and a person who watches may press Ctrl-C: neither ends the run.
    trap '' HUP INT QUIT TSTP
    cd /
    if [ -n "$CONTAINER" ]; then keep_to_oneself; else exec 2>>"$run/$HOLDER_LOG_FILE"; fi
    exec 7<"$run"
    flock -n -E "$CONFLICT" 7
    case $? in
        0) ;;
        "$CONFLICT") fail "another holder has this run" ;;
        *) fail "$run cannot be locked" ;;
    esac
    startable "$run" || fail "this run was started or stopped before"
    resume_following
    find_own_numbers "$run"
    find_wish
    take_ticket
    put "$run/$HOLDER_FILE" "$(ident $$)" || fail "cannot write to $run"
    printf '%s\n' "rlx: waiting for $kind device(s): ${wanted#=}"
    wait_for_turn
    while ! withdrawn "$run" && with_devices; [ $? -eq "$CONFLICT" ]; do
        # Looks again as soon as the holder of a device lets go, or in a second: another device may become free, and
        # a run that outlived its holder has no lock to wait for.
        { [ -n "$LOCKED" ] && flock -w 1 -E 0 6 6<"$LOCKED" 7<&- 8<&-; } || sleep 1 7<&- 8<&-
        # A run that was ahead and could have taken some of the devices may be gone.
        [ "$open" = "$could" ] || find_earlier
    done
}

# What root of the container can change is neither run nor followed: the script lasts as long as this open file, and
# what comes from the container goes into no file that is there already.
keep_to_oneself() {
    exec 9<"$0"
    SELF=/proc/self/fd/9
    rm -f "$run/$HOLDER_LOG_FILE"
    set -C
    exec 2>"$run/$HOLDER_LOG_FILE"
    set +C
}

held() {
    run=$1 leases=$2 kind=$3 devices=$4 ticket=$5 CONTAINER=${6-} INNER=${7-} viewer=''
    find_attempt "$run"
    put "$run/$HOLDER_FILE" "$(ident $$)"
    claim $$
    if [ -n "$CONTAINER" ]; then start_inside; else start_here; fi
    rm -f "$ticket" "$run/$TICKET_FILE"
    flock -u 8
    if [ -t 1 ]; then
        # Where tail can, it goes when a killed holder goes: it ignores the hang-up of its terminal, as the holder does.
        own=
        if tail --pid=$$ /dev/null 2>/dev/null; then own=--pid=$$; fi
        # shellcheck disable=SC2086 # no word, or one
        tail $own -n +1 -F "$ATTEMPT/$LOG_FILE" 2>/dev/null 7<&- 8<&- &
        viewer=$!
    fi
    if [ -n "$CONTAINER" ]; then pass_claim_inside; else pass_claim "$supervisor"; fi
    wait "$supervisor"
    # Normally everything is over now. A killed supervisor leaves the rest of its work to the holder.
    if [ -n "$CONTAINER" ]; then await_inside; else await "$run"; fi
    run_alive "$run" " ${run##*/}=$CONTAINER " || unclaim
    [ -z "$viewer" ] || kill "$viewer" 2>/dev/null
    return 0
}

start_here() {
    setsid sh "$0" run "$run" "$(positions)" "$kind" "$devices" </dev/null >/dev/null 7<&- 8<&- &
    supervisor=$!
}

# pass_claim PID: from here on the devices are the supervisor's, also for others than this user, and it may start the
# run. A holder that was killed before passed nothing on: its locks are free, and the run must not begin.
pass_claim() {
    claim "$1" && put "$STATE/$CLAIMED_FILE" "$1"
}
