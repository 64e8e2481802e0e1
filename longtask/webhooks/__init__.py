"""Events for programs elsewhere: endpoints, what is sent to them, and who sends it.

endpoints   adding, changing, looking: what the API and the command line share
message     one event as a signed POST (Standard Webhooks, body: the CloudEvent)
sender      the rounds: whoever serves carries them out, one process at a time for each endpoint
"""
