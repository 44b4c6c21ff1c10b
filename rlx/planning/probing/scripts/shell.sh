# Which names bash finds as rlx's functions, and whether rlx's programs stay first on its PATH: FUNCTIONS EXPORTS.
# As launch.sh starts a user's script, and nothing else is started. PATH has a folder that is not there in their place.
functions=$1
eval "$2"
export RLX_CONTAINED_BIN=/rlx-contained RLX_RAY_TMP=/rlx-contained RLX_BASH_ENV="${BASH_ENV:-}"
export PATH="$RLX_CONTAINED_BIN:$PATH" BASH_ENV=/dev/fd/9
# shellcheck disable=SC2016 # for the inner bash
printf '%s\n' "$functions" | {
    exec 9<&0 </dev/null
    bash -c '
        for name in ray pkill killall kill fuser; do
            [ "$(type -t "$name")" != function ] || echo "function=$name"
        done
        case $PATH in "$RLX_CONTAINED_BIN":*) echo programs=first ;; esac'
}
