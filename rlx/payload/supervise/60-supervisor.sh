# ---- the supervisor ------------------------------------------------------------------------------------------------

run() {
    run=$1
    trap '' HUP INT QUIT PIPE
    cd /
    find_attempt "$run"
    mkdir "$STATE/$STARTED_DIR" 2>/dev/null || fail "this run was started before"
    { put "$STATE/$SUPERVISOR_FILE" "$(ident $$)" && make_ray_tmp; } || give_up 74 "cannot write to $run or /tmp"
    within "$CLAIM_S" may_lead_or_never_will
    may_lead || give_up 75 \
        "its holder ended before it had passed on the devices, or cannot write to the leases; launch.sh was not started"
    beat &
    heart=$!
    start_leader "$2"
    await_leader
    record supervisor "$code"
    kill "$heart" 2>/dev/null
    GROUP=$leader
    clean_up "$run" "$SWEEP_GRACE_S"
}

give_up() {
    printf '%s\n' "rlx: $2" | tee -a "$ATTEMPT/$LOG_FILE" >&2
    record supervisor "$1"
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

beat() {
    trap 'kill "${!-}" 2>/dev/null; exit' TERM
    while kill -0 $$ 2>/dev/null; do
        now=$(date +%s)
        put "$STATE/$HEARTBEAT_FILE" "$now $(cut -d' ' -f1 /proc/uptime)"
        # Dates the lines of a log that carry no time themselves.
        printf '%s\n' "$now $(stat -c %s "$ATTEMPT/$LOG_FILE")" >>"$STATE/$CLOCK_FILE"
        sleep "$HEARTBEAT_S" &
        wait $!
    done
}

# The mark is set here and nowhere before: in the environment of tmux it would pass to strangers.
start_leader() {
    # A shell starts what it sends to the background with INT ignored; where env can undo that, it does.
    reset=
    if env --default-signal true 2>/dev/null; then reset='env --default-signal'; fi
    # shellcheck disable=SC2086 # no word, or two
    RLX_RUN=${run##*/} RLX_RUN_DIR=$run RLX_ATTEMPT_DIR=$ATTEMPT RLX_RAY_TMP=$ray_tmp RLX_DEVICES=$1 \
        RLX_NODE=$node RLX_NODES=$nodes RLX_HEAD=$head \
        setsid $reset sh "$0" ${WITHIN:+inside} lead "$run" </dev/null >>"$ATTEMPT/$LOG_FILE" 2>&1 &
    leader=$!
}

await_leader() {
    trap 'told=1; kill -s TERM -- "-$leader" 2>/dev/null' TERM
    told=1
    while [ -n "$told" ]; do
        told=''
        wait "$leader"
        code=$?
    done
}

lead() {
    run=$1
    find_attempt "$run"
    put "$STATE/$LEADER_FILE" "$(ident $$)"
    # TERM goes to the whole group; the leader outlives it to record how launch.sh took it.
    trap : HUP INT QUIT TERM
    if [ -e "$run/$STOP_FILE" ]; then
        code=143
    else
        (launch)
        code=$?
    fi
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
