# ---- at once -------------------------------------------------------------------------------------------------------

at_once_find() { JOB=; }

at_once_submit() {
    [ "$(request_of "$run")" = queue=main ] || take_back "at_once has no such queue"
    setsid sh "$run/$SUPERVISE_FILE" job "$run" "$kind" "$wanted" >>"$run/$HOLDER_LOG_FILE" 2>&1 </dev/null 5<&- &
    JOB=$!
}

at_once_job() {
    find_attempt "$run"
    put "$STATE/$CLAIMED_FILE" "job $$"
    find_cluster
    run "$run" 0 "$kind"
    exit "$code"
}

at_once_note_cut() { :; }

at_once_report() {
    for pair in $JOBS; do
        if kill -0 "${pair#*=}" 2>/dev/null; then printf 'at_once %s lives\n' "${pair#*=}"; else printf 'at_once %s gone\n' "${pair#*=}"; fi
    done
}

at_once_stop() {
    find_job "$run"
    put "$run/$STOP_FILE" "$(date +%s) $grace"
    end_processes "$run" "$grace"
    within 20 has_ended "$JOB"
    record stop 143
    nothing_left
    printf 'job job %s at once\n' "$JOB"
}

at_once_over() {
    find_job "$run" && has_ended "$JOB" || fail "it is not over"
}

at_once_jobs() {
    expand "$1"
    for run in "$EXPANDED"/runs/*; do
        is_job "$run" && find_job "$run" && kill -0 "$JOB" 2>/dev/null && printf '%s %s\n' "$JOB" "${run##*/}"
    done
    return 0
}
