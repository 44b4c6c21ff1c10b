# ---- the supervisor ------------------------------------------------------------------------------------------------

run() {
    run=$1
    trap '' HUP INT QUIT PIPE
    cd /
    find_attempt "$run"
    open_block "$run" || fail "it was withdrawn from this host, with all of its block"
    mkdir "$STATE/$STARTED_DIR" 2>/dev/null || fail "this run was started before"
    { put "$STATE/$SUPERVISOR_FILE" "$(ident $$)" && make_ray_tmp; } || give_up 74 "cannot write to $run or /tmp"
    [ -z "${PROBLEM-}" ] || "${SCHEDULER}_refuse"
    within "$CLAIM_S" may_lead_or_never_will
    may_lead || give_up 75 \
        "its holder ended before it had passed on the devices, or cannot write to the leases; launch.sh was not started"
    beat &
    heart=$!
    start_sampler "${3-}" "${4-}"
    start_nodes
    if makes_container "$run"; then
        contain_leader "$2"
    else
        start_leader "$2"
        await_leader
    fi
    finish_jobs
    end_usage
    record supervisor "$code"
    kill "$heart" 2>/dev/null
    GROUP=$leader
    clean_up "$run" "$SWEEP_GRACE_S"
}

give_up() {
    printf '%s\n' "rlx: $2" | tee -a "$ATTEMPT/$LOG_FILE" >&2
    record supervisor "$1"
    ! is_job "$run" || of_nodes forget_secrets
    clean_up "$run" 0
    exit "$1"
}

# A run that was stopped leases nothing: its leader only records that.
may_lead() { [ -e "$STATE/$CLAIMED_FILE" ] || [ -e "$run/$STOP_FILE" ]; }

# From inside a container the holder cannot be seen: there, only time tells that it is gone.
may_lead_or_never_will() { may_lead || { [ -z "$WITHIN" ] && gone "$run/$HOLDER_FILE"; }; }

# Short, because Ray puts sockets into it whose paths are limited to 107 bytes; private, because of the token.
make_ray_tmp() {
    find_cluster
    if [ -n "$ray_tmp" ]; then
        mkdir -m 700 "$ray_tmp" && ln -s "$run" "$ray_tmp/run" || return 1
    else
        ray_tmp=$(mktemp -d /tmp/rlx-XXXXXX) || return 1
    fi
    put "$STATE/$RAY_TMP_FILE" "$ray_tmp" || return 1
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$ray_tmp/token"
    [ -s "$ray_tmp/token" ]
}

# Which node of how many this is, where the Ray of the first one listens, and the folder that all of them name alike.
find_cluster() {
    node=0 nodes=1 head='' ray_tmp=''
    [ ! -e "$run/$CLUSTER_FILE" ] || read -r node nodes head ray_tmp <"$run/$CLUSTER_FILE"
}

# Where a further attempt goes on: at a checkpoint, or `none` for the beginning; empty for the first one.
find_resume() {
    resume_from=
    [ ! -e "$ATTEMPT/$RESUME_FILE" ] || read -r resume_from <"$ATTEMPT/$RESUME_FILE"
    case $resume_from in '' | none) ;; *) resume_from=$run/$resume_from ;; esac
}

beat() {
    trap 'kill "${!-}" 2>/dev/null; exit' TERM
    # A pid may be given again.
    start_tick $$ && begun=$TICK
    while start_tick $$ && [ "$TICK" = "$begun" ]; do
        now=$(date +%s)
        put "$STATE/$HEARTBEAT_FILE" "$now $(cut -d' ' -f1 /proc/uptime)"
        # Dates the lines of a log that carry no time themselves.
        printf '%s\n' "$now $(stat -c %s "$ATTEMPT/$LOG_FILE")" >>"$STATE/$CLOCK_FILE"
        sleep "$HEARTBEAT_S" &
        wait $!
    done
}

# The mark is set here and nowhere before: in the environment of tmux it would pass to strangers. Python writes each line
# to the log when it prints it, unless the host, the recipe or the script sets PYTHONUNBUFFERED otherwise.
start_leader() {
    # A shell starts what it sends to the background with INT ignored; where env can undo that, it does.
    find_resume
    reset=
    if env --default-signal true 2>/dev/null; then reset='env --default-signal'; fi
    # shellcheck disable=SC2086 # no word, or two
    RLX_RUN=${run##*/} RLX_RUN_DIR=$run RLX_ATTEMPT_DIR=$ATTEMPT RLX_RAY_TMP=$ray_tmp RLX_DEVICES=$1 \
        RLX_NODE=$node RLX_NODES=$nodes RLX_HEAD=$head RLX_RESUME_FROM=$resume_from \
        PYTHONUNBUFFERED=${PYTHONUNBUFFERED-1} \
        setsid $reset sh "$0" ${WITHIN:+inside} lead "$run" </dev/null >>"$ATTEMPT/$LOG_FILE" 2>&1 &
    leader=$!
}

await_leader() {
    trap 'told=1; end_leader term' TERM
    # A batch scheduler, some time before the limit of the job.
    trap 'told=1; end_leader limit' USR1
    told=1
    while [ -n "$told" ]; do
        told=''
        wait "$leader"
        code=$?
    done
}

# end_leader WHY: why comes first, so that the log has the cause before what follows from it.
end_leader() {
    note_cut "$1"
    if [ -n "$BOX" ]; then echo TERM >&4; else kill -s TERM -- "-$leader"; fi 2>/dev/null
}

lead() {
    run=$1
    find_attempt "$run"
    put "$STATE/$LEADER_FILE" "$(ident $$)"
    # TERM goes to the whole group; the leader outlives it to record how launch.sh took it.
    trap : HUP INT QUIT TERM
    if [ -e "$run/$STOP_FILE" ]; then
        code=143
    elif [ -e "$run/$ENV_FILE" ]; then
        launch_masked
    else
        launch_followed
    fi
    end_usage
    record leader "$code"
    exit "$code"
}

launch() {
    cd "$run" || exit 74
    if [ -e "$ENV_FILE" ]; then
        # shellcheck disable=SC1090,SC1091 # written by rlx: one export a secret
        . "./$ENV_FILE"
        rm -f "$ENV_FILE" && [ ! -e "$ENV_FILE" ] || exit 74
    fi
    exec bash "./$LAUNCH_FILE"
}

# What a run with secrets prints goes through a pipe to a program that masks their values: the log never holds them. The
# values go there by an open file, which loses its name before launch.sh starts.
launch_masked() {
    exec 6<"$run/$ENV_FILE"
    pipe=$RLX_RAY_TMP/printed
    if find_python && mkfifo -m 600 "$pipe"; then
        print_masked &
        masking=$!
        # shellcheck disable=SC2094 # both ends are open, so its name is no longer needed
        (
            { exec 6<&- && rm -f "$pipe"; } || exit
            launch_followed
            exit "$code"
        ) >"$pipe" 2>&1
        code=$?
        # A process that outlives launch.sh has the pipe open, and is ended later.
        within "$DRAIN_S" has_ended "$masking"
        timeout "$MASK_FILES_S" "$PYTHON" -I -S "$run/$MASK_FILE" files "$run/$ATTEMPTS_DIR"
    else
        echo "rlx: there is no Python 3.8 or later on the PATH here: the values of secrets are not masked in this log"
        exec 6<&-
        launch_followed
    fi
    exec 6<&-
}

has_ended() { ! start_tick "$1"; }

# Without it the pipe is not read, and the run would hang or end: so it starts again whenever it is killed. It takes no
# signal of the run's, and in the end it discards what it cannot mask.
print_masked() {
    trap '' HUP INT QUIT TERM
    exec <"$pipe"
    starts=1
    until "$PYTHON" -I -S "$run/$MASK_FILE" print; do
        starts=$((starts + 1))
        [ "$starts" -le "$MASK_STARTS" ] || break
    done
    [ "$starts" -gt "$MASK_STARTS" ] || return 0
    echo "rlx: what masks the values of secrets ended $MASK_STARTS times: what the run prints from here on is not kept"
    cat >/dev/null
}
