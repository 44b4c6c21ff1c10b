# ---- accept --------------------------------------------------------------------------------------------------------
# The caller holds the lock of ROOT/runs on fd 5 and removes OWN and INCOMING afterwards. OWN/order has a line a run:
# `<id> <kind> <wanted>`. Prints `started <id>`, `existing <id>`, `withdrawn <id>` or `warning <text>` lines, all of them at the end: the
# reader may be gone, and a broken pipe must not end a launch half way.

accept() {
    own=$1 incoming=$2 root=$3 leases=$4 socket=$5 container=${6-} inner_runs=${7-}
    # The order comes last in the archive: it is whole only if everything before it is.
    [ "$(tail -n 1 "$own/order" 2>/dev/null)" = end ] || fail "the shipment arrived incomplete"
    VISIBLE=
    while read -r id kind wanted; do
        [ "$id" != end ] || break
        put_own_script "$incoming/$id" || fail "cannot write $incoming/$id/$SUPERVISE_FILE"
        is_job "$incoming/$id" || prepare_leases "$incoming/$id"
    done <"$own/order"
    results=
    case $(stat -f -c %T "$root" 2>/dev/null) in
        tmpfs | ramfs) results="warning $root is in memory: its runs are lost when this machine restarts$NEWLINE" ;;
    esac
    while read -r id kind wanted; do
        [ "$id" = end ] || accept_run
    done <"$own/order"
    printf %s "$results"
}

# put_own_script RUN: only where nothing is, so that nothing is written through another user's file.
put_own_script() {
    (set -C && cat "$own/$SUPERVISE_FILE" >"$1/$SUPERVISE_FILE")
}

accept_run() {
    run=$root/runs/$id fresh=
    if was_withdrawn; then
        results="${results}withdrawn $id$NEWLINE"
        return
    fi
    if [ ! -e "$run" ]; then
        mv "$incoming/$id" "$run" || fail "cannot create $run"
        fresh=1
    fi
    outcome=existing
    if is_job "$run"; then
        find_cluster
        # A further node comes before its head, which becomes the job of both.
        [ "$node" -eq 0 ] || return 0
        ! startable "$run" || submit_job
    elif startable "$run" && ! alive "$run/$HOLDER_FILE" && ! elsewhere "$run"; then
        start_holder </dev/null
        outcome=started
    fi
    results=$results$outcome\ $id$NEWLINE
}

# fd 5 is closed: the server that tmux may start here would keep the lock for ever.
start_holder() {
    set -- sh "$run/$SUPERVISE_FILE" hold "$run" "$leases" "$kind" "$wanted"
    log=$run/$HOLDER_LOG_FILE
    if [ -n "$container" ]; then
        set -- sh "$own/$SUPERVISE_FILE" hold "$run" "$leases" "$kind" "$wanted" "$container" "$inner_runs/$id"
        log=/dev/null
    fi
    for name in HOME USER LOGNAME PATH SHELL LANG LC_ALL LC_CTYPE TMPDIR TERM $DOCKER_NAMES; do
        eval "value=\${$name-}"
        [ -z "$value" ] || set -- "$name=$value" "$@"
    done
    # What a tmux server adds is not for the runs; in a container, what its image declares is.
    clean=-i
    [ ! -e /.dockerenv ] || clean='-u TMUX -u TMUX_PANE -u TERM_PROGRAM -u TERM_PROGRAM_VERSION'
    rm -f "$run/$HOLDER_FILE"
    if command -v tmux >/dev/null; then
        session=$(printf %s "$id" | tr '.:' '__')
        # Again for a while: a tmux server whose last session just ended may refuse the next one.
        within "$TMUX_RETRY_S" start_session "$@" || take_back "tmux could not start a session: $said"
    else
        # shellcheck disable=SC2086 # options of env
        setsid env $clean "$@" </dev/null >>"$log" 2>&1 5<&- &
    fi
    within "$HOLDER_START_S" test -e "$run/$HOLDER_FILE" ||
        take_back "the holder of $id did not start: $(tail -n 3 "$run/$HOLDER_LOG_FILE" 2>/dev/null)"
}

# By its exit code alone tmux claims success in some cases in which it could not start its server. A session that is
# not there may be over already: then its holder was here.
start_session() {
    # shellcheck disable=SC2086 # options of env
    said=$(tmux -L "$socket" -f /dev/null new-session -d -s "$session" -x 200 -y 50 env $clean "$@" 2>&1 5<&-)
    tmux -L "$socket" has-session -t "=$session" 2>/dev/null || [ -e "$run/$HOLDER_FILE" ]
}

# A run that cannot start leaves nothing behind, unless it was there before.
take_back() {
    if [ -n "$fresh" ]; then of_nodes take_part_back; fi
    printf %s "$results"
    fail "$1"
}

take_part_back() { mv "$1" "$incoming/taken-back" && rm -rf "$incoming/taken-back"; }
