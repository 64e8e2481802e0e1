"""A model server that plays a script: what a model would say, over the wires that agents speak.

script     the language: YAML, JSON or Python -> a checked Script
playback   a script being played: which turn a request gets, its faults, what was asked so far
asked      what a request asks for, whatever wire it came over
said       what is answered: text and calls, with the tools that were offered
calls      portable calls (shell, write, edit, read) as calls of those tools; codex: what only Codex is told
wires      Anthropic Messages, OpenAI Responses, OpenAI Chat Completions
performing the answer on the connection, faults included
app        addresses, limits, and what may be asked about the script
server     `ModelServer`: all of it in a thread of its own

It listens on loopback only, asks for no key and keeps none.  It knows nothing of tasks and agents' runtimes.
"""
