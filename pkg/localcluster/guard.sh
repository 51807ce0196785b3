#!/bin/sh
# Undertaker of one folder. Its standard input is a pipe whose other end only the
# folder's owner holds, so the input ends when the owner ends, also by SIGKILL.
# Then every program that was started as FOLDER/bin/NAME dies with its process
# group, and the folder goes. Programs that only mention the folder (an editor, a
# "tail -f") are left alone.

folder=$1

# running lists all processes: pid, then the command line.
running() {
	if [ ! -e /proc/self/cmdline ]; then
		ps -axww -o pid=,args=
		return
	fi
	for file in /proc/[0-9]*/cmdline; do
		line=
		{ IFS= read -r line <"$file"; } 2>/dev/null # false: there is no newline
		pid=${file#/proc/}
		printf '%s %s\n' "${pid%/cmdline}" "$line"
	done
}

# ours lists the pids of the folder's programs; all of them lead a process group.
ours() {
	running | while read -r pid command; do
		case $command in
		"$folder"/bin/*) echo "$pid" ;;
		esac
	done
}

# main is read as a whole before it runs, so it may remove this file.
main() {
	trap '' HUP INT TERM
	cat >/dev/null
	# 200 rounds are at least ten seconds; what then still runs cannot be killed.
	round=0
	while pids=$(ours) && [ -n "$pids" ] && [ "$round" -lt 200 ]; do
		for pid in $pids; do
			kill -s KILL -- "-$pid" 2>/dev/null || kill -s KILL "$pid" 2>/dev/null
		done
		sleep 0.05
		round=$((round + 1))
	done
	rm -rf -- "$folder"
	exit
}

main
