# guard.sh NAME FOLDER: undertaker of one lab. Its standard input is a pipe; only the lab's process holds the other end,
# so the input ends with the process, whatever ended it. Then everything with the name is removed from Docker, and the
# folder is deleted. A docker command that was still under way may bring one more container: it looks until it has found
# none three times.
trap '' HUP INT TERM
cat >/dev/null
nothing=0
while [ "$nothing" -lt 3 ]; do
	containers=$(docker ps -aq --filter "label=io.x-k8s.kind.cluster=$1")
	if [ -n "$containers" ]; then
		docker rm -f -v $containers >/dev/null 2>&1
		nothing=0
	else
		nothing=$((nothing + 1))
		[ "$nothing" -lt 3 ] && sleep 0.5
	fi
done
docker network rm "$1" >/dev/null 2>&1
docker images -q "$1/*" | sort -u | xargs -r docker rmi -f >/dev/null 2>&1
rm -rf -- "$2"
exit 0
