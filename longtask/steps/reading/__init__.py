"""What test runners print, and the reports that they write: how far they are, and what has failed.

contract    `Tool`, what is known of one runner's output; `Progress`; `Failing`, the names
lines       bytes as they come → lines
reader      `Reader`, all tools beside each other: whose lines these are shows the output itself
pytest, unittest, jest, vitest, cargo, go, maven, gradle, tap     a tool each
counts      any program that writes `n/m`
junit       reports in JUnit's XML, as files

All of it comes from programs that nobody has checked.  So lines are cut, names are counted, expressions look at a line
once, and whatever cannot be understood is passed over.  A reading may be wrong about a program that prints something
alike; `progress:` in the plan says what to believe.
"""
