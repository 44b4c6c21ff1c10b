# ---- retry ---------------------------------------------------------------------------------------------------------
# A further attempt of a run that is over, in the same run directory. The caller holds the lock of ROOT/runs on fd 5.
# OWN/order has a line `<id> <kind> <wanted> <attempt> <checkpoint or none>`, and then, up to `end`:
#   sum <sha256>  <path>    a file of the run directory, as it was launched
#   aside <name>            what is in checkpoints/ and must not be resumed from
#   mark <name> <text>      the file in checkpoints/ that names the last whole one, and what it is to say
# INCOMING holds the folder `attempt`, supervise.sh, what is asked of a scheduler, and what secrets need. Prints `started <id>` or `existing <id>`.

retry() {
    own=$1 incoming=$2 root=$3 leases=$4 socket=$5 container=${6-} inner_runs=${7-}
    [ "$(tail -n 1 "$own/order" 2>/dev/null)" = end ] || fail "the shipment arrived incomplete"
    read -r id kind wanted further from <"$own/order"
    run=$root/runs/$id VISIBLE='' results='' fresh=''
    [ -d "$run" ] || fail "there is no $run"
    find_attempt "$run"
    # Another rlx was faster: this is what it began.
    [ "$newest" -lt "$further" ] || { printf 'existing %s\n' "$id" && return; }
    check_is_over
    check_is_unchanged
    is_job "$incoming" || prepare_leases "$run"
    begin_attempt
    (start_attempt </dev/null) || { undo_attempt && exit 2; }
    printf 'started %s\n' "$id"
}

start_attempt() { if is_job "$run"; then submit_job; else start_holder; fi; }

# The run may have changed its own files, so that what was sent says whether it is a job.
check_is_over() {
    if is_job "$incoming"; then check_job_is_over; else check_none_is_alive; fi
    code=
    [ -f "$STATE/$EXIT_FILE" ] && { read -r code _ <"$STATE/$EXIT_FILE"; } 2>/dev/null
    [ "$code" != 0 ] || fail "it has finished"
    [ -n "$container" ] || return 0
    find_statuses "$container"
    status_of "$container"
    case $STATUS in
        running) ;;
        gone) fail "its container was removed: launch it again" ;;
        *) fail "its container does not run (docker: $STATUS): start it first" ;;
    esac
}

check_none_is_alive() {
    ! elsewhere "$run" || fail "it was started on $OTHER, and this is $NODE"
    ! alive "$run/$HOLDER_FILE" || fail "it is not over: its holder is alive"
    ! run_alive "$run" " $id=$container " ||
        fail "it is not over: processes of it are alive, or that cannot be told; rlx stop $id"
}

# With other files it would be another experiment under the same name.
check_is_unchanged() {
    command -v sha256sum >/dev/null || fail "this host has no sha256sum"
    changed=$(cd "$run" && sed -n 's/^sum //p' "$own/order" | LC_ALL=C sha256sum -c 2>/dev/null |
        sed -n 's/: FAILED.*//p' | head -n 3 | tr '\n' ' ')
    [ -z "$changed" ] || fail "changed or gone since the launch: ${changed% }"
    [ "$from" = none ] || [ -d "$run/$from" ] || fail "there is no $run/$from"
}

# Nothing shows before the folder of the attempt is renamed into its place.
begin_attempt() {
    next=$run/$ATTEMPTS_DIR/$further
    # The processes of a container and of a job are not this host's.
    is_job "$incoming" || contained "$run" || clean_up "$run" 0
    rm -f "$run/$ENV_FILE" "$STATE/$RESERVED_FILE".*
    for file in "$SUPERVISE_FILE" "$REQUEST_FILE" "$DOCKER_FILE" "$ENV_FILE" "$MASK_FILE"; do
        [ ! -e "$incoming/$file" ] || mv -f "$incoming/$file" "$run/$file" || fail "cannot write to $run"
    done
    set_checkpoints_aside || { return_checkpoints && fail "cannot move checkpoints in $run/$CHECKPOINTS_DIR"; }
    for file in "$STOP_FILE" "$JOB_FILE"; do
        [ ! -e "$run/$file" ] || mv -f "$run/$file" "$STATE/$file"
    done
    rm -f "$run/$HOLDER_FILE"
    mv "$incoming/attempt" "$next" || { return_checkpoints && fail "cannot create $next"; }
    point_latest "$further"
}

# Those of an attempt that does not count stay with it. Of one that is gone on from, what was not whole stays beside the
# others: a folder of another user cannot leave its own.
set_checkpoints_aside() {
    if [ "$from" = none ]; then
        mv "$run/$CHECKPOINTS_DIR" "$ATTEMPT/$CHECKPOINTS_DIR" && mkdir "$run/$CHECKPOINTS_DIR"
        return
    fi
    while read -r word name text; do
        case $word in
            aside) mv "$run/$CHECKPOINTS_DIR/$name" "$run/$CHECKPOINTS_DIR/aside-$newest-$name" || return 1 ;;
            mark) put "$run/$CHECKPOINTS_DIR/$name" "$text" || return 1 ;;
        esac
    done <"$own/order"
}

return_checkpoints() {
    if [ "$from" = none ]; then
        [ ! -d "$ATTEMPT/$CHECKPOINTS_DIR" ] ||
            { rmdir "$run/$CHECKPOINTS_DIR" && mv "$ATTEMPT/$CHECKPOINTS_DIR" "$run/$CHECKPOINTS_DIR"; }
        return 0
    fi
    while read -r word name _; do
        [ "$word" = aside ] && [ -e "$run/$CHECKPOINTS_DIR/aside-$newest-$name" ] &&
            mv "$run/$CHECKPOINTS_DIR/aside-$newest-$name" "$run/$CHECKPOINTS_DIR/$name"
    done <"$own/order"
    return 0
}

# By a rename, where mv can put a link in the place of one that leads to a folder.
point_latest() {
    ln -sfn "$ATTEMPTS_DIR/$1" "$run/.$LATEST_LINK.tmp" &&
        { mv -fT "$run/.$LATEST_LINK.tmp" "$run/$LATEST_LINK" 2>/dev/null ||
            ln -sfn "$ATTEMPTS_DIR/$1" "$run/$LATEST_LINK"; }
    rm -f "$run/.$LATEST_LINK.tmp"
}

# An attempt that could not start was none.
undo_attempt() {
    mv "$next" "$incoming/taken-back" && rm -rf "$incoming/taken-back"
    point_latest "$newest"
    return_checkpoints
    for file in "$STOP_FILE" "$JOB_FILE"; do
        [ ! -e "$STATE/$file" ] || mv "$STATE/$file" "$run/$file"
    done
    rm -f "$run/$ENV_FILE"
}

# `text <name> <words>` of the small files in checkpoints/, and of each file below it `file <bytes> <path>` and, where a
# writer puts its index at the end, `tail <hex> <path>`: by that a file that was cut off shows.
checkpoints() {
    expand "$1"
    [ -d "$EXPANDED" ] || fail "there is no $EXPANDED"
    cd "$EXPANDED/$CHECKPOINTS_DIR" 2>/dev/null || return 0
    for file in *.txt; do
        [ ! -f "$file" ] || printf 'text %s %s\n' "$file" "$(head -c 100 "$file" 2>/dev/null | tr -cd 'A-Za-z0-9._-')"
    done
    find . -maxdepth 6 -type f ! -path './aside-*' -exec stat -c 'file %s %n' {} + 2>/dev/null | head -n 20000
    find . -maxdepth 6 -type f ! -path './aside-*' -name '*.pt' 2>/dev/null | head -n 2000 | while read -r file; do
        printf 'tail %s %s\n' "$(tail -c 22 "$file" 2>/dev/null | od -An -v -tx1 | tr -d ' \n')" "$file"
    done
}
