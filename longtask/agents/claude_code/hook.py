"""What Claude Code starts before each tool: asks the runtime, by a socket, and passes on what that answers.

A program of its own that imports almost nothing: it stands before every tool.  If nobody answers, the tool is refused.
"""

import os
import socket
import sys

PATH_BYTES_MAX = 100  # of a socket; a longer one is reached by its folder
REFUSED = 2  # of a hook: the tool does not run, and the model is told why


def short(path: str) -> str:
    """The same socket by a short path, which holds for this process."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        return path
    folder, name = os.path.split(path)
    return f"/proc/self/fd/{os.open(folder, os.O_RDONLY | os.O_DIRECTORY)}/{name}"


def main() -> int:
    try:
        with socket.socket(socket.AF_UNIX) as way:
            way.connect(short(sys.argv[1]))
            way.sendall(sys.stdin.buffer.read())
            way.shutdown(socket.SHUT_WR)
            answer = b""
            while part := way.recv(65_536):
                answer += part
    except OSError as error:
        answer = b""
        sys.stderr.write(f"nobody is there who could allow it: {error}\n")
    sys.stdout.buffer.write(answer)
    return 0 if answer else REFUSED


if __name__ == "__main__":
    sys.exit(main())
