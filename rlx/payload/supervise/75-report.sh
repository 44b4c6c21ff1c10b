# ---- report --------------------------------------------------------------------------------------------------------
# For runs in containers, `container <id> <status>` and, from inside, `in <id> <key>=<value>…`.
# `marked` and the mark of each process that has one, each followed by a NUL byte. Then a line a run that exists:
# `run <id> <key>=<value>…`, and later a line a file of it: `file <id>/<path> <bytes> <time>`. The host's clock is the time of
# the file /proc/self/. `submitted <id> open|over <exit code> <state> <silent since> <job> <address>` of a run with Ray jobs, as it is
# known; where no process follows them, as the cluster says.
#
# Every process that this starts costs time, on each of many hosts. So there are few.

report() {
    choose_runs "$@"
    LISTED="${LISTED-} "
    DOCKER_S=$REPORT_DOCKER_S
    report_containers
    report_jobs
    printf 'marked '
    tell_marks
    printf '\n'
    cd "$root/runs" 2>/dev/null || RUNS=
    # What looks at it has just begun: its folder in /proc is from now.
    set -- /proc/self/
    for id in $RUNS; do
        [ -d "$id" ] || continue
        report_run "$root/runs/$id" "$id"
        here=$id/$ATTEMPTS_DIR/${ATTEMPT##*/}
        set -- "$@" "$id/$MANIFEST_FILE" "$id/$STOP_FILE" "$here/$LOG_FILE" "$here/$METRICS_FILE" "$here/$STATE_DIR/$STARTED_DIR"
        [ "$newest" -eq 1 ] || set -- "$@" "$here/$LINEAGE_FILE"
        [ ! -e "$STATE/$STOP_FILE" ] || set -- "$@" "$here/$STATE_DIR/$STOP_FILE"
        ! find_job "$id" || set -- "$@" "$here/$STATE_DIR/$HEARTBEAT_FILE"
        [ $# -lt 1000 ] || { report_files "$@" && set -- /proc/self/; }
    done
    report_files "$@"
    wait
}

# Some are not there (1); anything else is a host that is out of processes or memory, and without this a run that has
# started would look as if it never had.
report_files() {
    stat -c 'file %n %s %Y' "$@" 2>/dev/null
    case $? in 0 | 1) ;; *) fail "cannot look at the files of the runs" ;; esac
}

# manifests ROOT: what the manifests of all runs say, and what is left of those that were removed. First, a line each, the
# digests in KNOWN that such files have now; then a NUL byte before the text of each other file. Without the tools that
# digest, all are others.
manifests() {
    choose_runs "$1"
    cd "$root/runs" 2>/dev/null || return 0
    files=$(manifest_files)
    [ -z "$KNOWN" ] || [ -z "$files" ] || files=$(tell_known)
    set -f
    IFS=$NEWLINE
    for file in $files; do
        case $file in =*) printf '%s\n' "${file#=}" ;; *) printf '\0' && cat "$file" 2>/dev/null ;; esac
    done
    return 0
}

manifest_files() {
    for file in "$TOMBSTONES_DIR/"*.json; do
        case $file in "$TOMBSTONES_DIR/"*[!A-Za-z0-9._-]*) ;; *) [ ! -f "$file" ] || printf '%s\n' "$file" ;; esac
    done
    for id in $RUNS; do printf '%s\n' "$id/$MANIFEST_FILE"; done
}

# Of $files, `=<digest>` of each that is known, and then the others.
tell_known() {
    for tool in awk sha256sum tr xargs; do
        command -v "$tool" >/dev/null || { printf '%s\n' "$files" && return; }
    done
    {
        printf '%s\n\n' "$KNOWN"
        printf '%s\n' "$files" | tr '\n' '\0' | xargs -0 sha256sum 2>/dev/null
        printf '\n%s\n' "$files"
    } | awk '
        $0 == "" { section++; next }
        !section { known[$0]; next }
        section == 1 { if ($1 in known) { same[substr($0, 67)]; print "=" $1 } next }
        !($0 in same)'
}

# choose_runs ROOT [ID…] [-- ID=CONTAINER…]: in RUNS, these ids, or all names below ROOT that can be run ids; those
# contain no blanks. In LISTED, the containers that may be entered, each for one run.
choose_runs() {
    expand "$1"
    root=$EXPANDED
    shift
    RUNS=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do RUNS="$RUNS $1" && shift; done
    [ $# -eq 0 ] || LISTED=" $*"
    [ -z "$RUNS" ] || return 0
    for run in "$root/runs/"*/"$MANIFEST_FILE"; do
        id=${run%/"$MANIFEST_FILE"}
        id=${id##*/}
        case $id in *[!A-Za-z0-9._-]* | -*) ;; *) [ ! -f "$run" ] || RUNS="$RUNS $id" ;; esac
    done
}

# One pass over the process table for all runs: the mark of each marked process, and a NUL byte.
tell_marks() {
    marks=
    for id in $RUNS; do marks="${marks}RLX_RUN=$id$NEWLINE"; done
    # shellcheck disable=SC2062 # these are files, not a pattern
    grep -hzxF -f - /proc/[0-9]*/environ 2>/dev/null <<END
${marks%"$NEWLINE"}
END
}

# Two docker commands for all runs of a container, and the containers at the same time.
report_containers() {
    CONTAINERS='' INNERS=''
    for id in $RUNS; do
        contained "$root/runs/$id" || continue
        ! elsewhere "$root/runs/$id" || continue
        [ -z "$MAY_ENTER" ] || INNERS="$INNERS$CONTAINER $INNER$NEWLINE"
        case " $CONTAINERS " in *" $CONTAINER "*) ;; *) CONTAINERS="$CONTAINERS $CONTAINER" ;; esac
    done
    [ -n "$CONTAINERS" ] || return 0
    # shellcheck disable=SC2086 # one word a container
    find_statuses $CONTAINERS
    for CONTAINER in $CONTAINERS; do report_container & done
    wait
}

# A line at a time: then they do not mix.
report_container() {
    status_of "$CONTAINER"
    seen=
    [ "$STATUS" != running ] || seen=$(look_at_runs) || STATUS=unknown
    printf 'container %s %s\n' "$CONTAINER" "$STATUS"
    [ -z "$seen" ] || printf '%s\n' "$seen" | while read -r line; do printf '%s\n' "$line"; done
}

look_at_runs() {
    set -f
    IFS=$NEWLINE
    set --
    for entry in $INNERS; do
        case $entry in "$CONTAINER "*) INNER=${entry#* } && set -- "$@" "$INNER" ;; esac
    done
    unset IFS
    [ $# -eq 0 ] || look_inside "$@"
}

# Processes are read before the files that they write at their end: a dead process has written already.
report_run() {
    find_attempt "$1"
    line="run $2 attempt=${ATTEMPT##*/}" ahead=0
    add_life holder "$1/$HOLDER_FILE"
    if elsewhere "$1"; then
        line="$line node=$OTHER supervisor=unknown leader=unknown"
    elif contained "$1"; then
        line="$line container=$CONTAINER"
        [ -n "$MAY_ENTER" ] || line="$line unlisted=1"
    else
        add_life supervisor "$STATE/$SUPERVISOR_FILE"
        add_life leader "$STATE/$LEADER_FILE"
    fi
    report_ray "$1" "$2"
    [ -f "$1/$TICKET_FILE" ] && { read -r ticket <"$1/$TICKET_FILE"; } 2>/dev/null && count_ahead "$ticket"
    ended=
    [ -f "$STATE/$EXIT_FILE" ] && { read -r code who epoch _ <"$STATE/$EXIT_FILE"; } 2>/dev/null && ended="exit=$code,$who,$epoch"
    ! { is_job "$1" && find_job "$1"; } || ended="$ended job=$SCHEDULER,$JOB"
    [ -f "$STATE/$CUT_FILE" ] && { read -r cut _ <"$STATE/$CUT_FILE"; } 2>/dev/null && ended="$ended cut=$cut"
    [ -f "$1/$FOREIGN_FILE" ] && { read -r foreign <"$1/$FOREIGN_FILE"; } 2>/dev/null && [ -e "$1/$TICKET_FILE" ] && ended="$ended foreign=$foreign"
    printf '%s\n' "$line ahead=$ahead $ended"
}

report_ray() {
    { [ -s "$ATTEMPT/$RAY_JOBS_FILE" ] || [ -f "$STATE/$RAY_STATE_FILE" ]; } && [ ! -e "$STATE/$EXIT_FILE" ] || return 0
    case $line in
        *=live* | *container=* | *node=*) ;;
        *)
            if jobs_open && follows_jobs "$1"; then
                (run=$1 && jobs_program look "$1") &
                return
            fi
            ;;
    esac
    [ -f "$STATE/$RAY_STATE_FILE" ] && { read -r told <"$STATE/$RAY_STATE_FILE"; } 2>/dev/null && printf 'submitted %s %s\n' "$2" "$told"
}

add_life() {
    life=none
    [ ! -e "$2" ] || life=dead
    alive "$2"
    case $? in 0) life=live ;; 2) life=unknown ;; esac
    line="$line $1=$life"
}

# count_ahead TICKET: the runs that it waits for: those that have devices which it could take, and those ahead of it that
# wait for such.
count_ahead() {
    kind=${1##*.} claimants=' ' other=$1
    { is_ticket && read_wish "$1"; } || COULD=
    could=$COULD
    for other in "${1%/*}/"*".$kind"; do
        [ "$other" != "$1" ] || break
        if is_ticket && competes "$other" && alive "$other"; then
            ahead=$((ahead + 1))
            # It claims its devices a moment before its ticket goes, and is still one run.
            { read -r _ && read -r claimed; } 2>/dev/null <"$other" && claimants="$claimants${claimed##*/} "
        fi
    done
    for claim in "${1%/tickets/*}/devices/$kind."*/*; do
        [ -f "$claim" ] || continue
        device=${claim%/*}
        case " ${could:-${device##*.}} " in *" ${device##*.} "*) ;; *) continue ;; esac
        { read -r claimed <"$claim"; } 2>/dev/null || continue
        case $claimants in *" ${claimed##*/} "*) continue ;; esac
        claimants="$claimants${claimed##*/} "
        if claim_alive; then ahead=$((ahead + 1)); fi
    done
}

# competes TICKET: its run could take one of $could; an empty one means any.
competes() {
    [ -n "$could" ] && read_wish "$1" || return 0
    without "$could" "$COULD"
    [ "$REST" != "$could" ]
}
