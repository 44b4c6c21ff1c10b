# For each PATH: space, inodes and file system of the nearest folder that exists. A record begins with `path=`.
for path in "$@"; do
    existing=$path
    case $path in "~" | "~"/*) existing=$HOME${path#"~"} ;; esac
    while [ ! -e "$existing" ] && [ "${#existing}" -gt 1 ]; do existing=$(dirname "$existing"); done
    printf 'path=%s\nexisting=%s\n' "$path" "$existing"
    if [ -w "$existing" ]; then echo writable=yes; else echo writable=no; fi
    printf 'space=%s\n' "$(df -Pk "$existing" 2>/dev/null | tail -n 1)"
    printf 'inodes=%s\n' "$(df -Pi "$existing" 2>/dev/null | tail -n 1)"
    printf 'type=%s\n' "$(stat -f -c %T "$existing" 2>/dev/null)"
done
