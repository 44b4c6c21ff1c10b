# CONTAINER FORMAT: what of it concerns a run, and the digests of its image.
found=$(docker inspect --type container --format "$2" "$1" 2>&1)
failed=$?
printf '%s\n' "$found"
[ "$failed" -eq 0 ] || exit "$failed"
image=$(printf '%s\n' "$found" | sed -n 's/.*"image_id":"\([^"]*\)".*/\1/p')
docker image inspect --format '{{json .RepoDigests}}' "$image" 2>/dev/null
exit 0
