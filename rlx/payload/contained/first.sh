# The first process of a script's own process namespace: sh first.sh SCRIPT ARGUMENT…. Tells on descriptor 4 how it ended, and
# stays as long as the script has left something, such as a Ray with a job: with the first process all of them end.
trap : HUP INT QUIT TERM
export RLX_CONTAINED_BY=$$
done='runs in a process namespace of its own'
printf 'rlx: the script %s\n' "$done"
printf '{"kind": "intervention", "at": %s, "command": "the script", "done": "%s"}\n' "$(date +%s)" "$done" \
    >>"$RLX_ATTEMPT_DIR/events/interventions.jsonl"
bash "$@" 4>&- &
script=$!
while :; do
    wait "$script"
    code=$?
    # A signal ends the wait, too.
    kill -0 "$script" 2>/dev/null || break
done
printf '%s\n' "$code" >&4
exec 4>&-
while set -- /proc/[0-9]* && [ $# -gt 1 ]; do sleep 1; done
