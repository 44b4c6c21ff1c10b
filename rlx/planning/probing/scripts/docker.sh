# The Docker CLI, the rights of this user, and the containers that run.
command -v docker >/dev/null 2>&1 || { echo "missing=yes"; exit 0; }
printf 'client=%s\n' "$(docker --version 2>/dev/null)"
docker version --format 'server={{.Server.Version}}' 2>&1
docker ps --no-trunc --format 'container={{.ID}} {{.Names}} {{.Image}}' 2>/dev/null
