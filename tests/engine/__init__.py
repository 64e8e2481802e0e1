"""The cases of SEMANTICS §9 on the real engine: desk, dispatch, scheduler and worker over a real store.

A case's number stands behind its test, as `# (17b)`.  Where each is found:

     1- 7   test_stages       stages and gates
     8-15   test_conditions   `if`, `run_when`, `when_failed`, fail_fast, draining
    16-19, 21, 22   test_retry    retry and waive
    23-28, 30       test_fix      the fix loop
    31-36b  test_for_each     lists; rows for each transaction: test_cost
    50-55   test_waiting      signals, deadlines, approvals, questions
    56-60   test_budgets      retries, losses, timeouts, usage and money
    36, 60b, 60c    test_stopping   cancelling, pausing, draining
    62, 63  test_claims       leases, fences, limits, fairness
    64-68   test_commits      the merge queue; 68 with real processes: tests/crash
            test_submitting   batches, keys, large values
            test_cost         rows and statements

Each world is audited when its test ends.  Later parts bring 20, 29, 37-49b, 61 and the forks of 14 and 22.
"""
