"""Tokens, the audit, and requests that may be repeated: what the contract says about callers over HTTP."""

from dataclasses import replace
from functools import partial

import pytest

from longtask.core.errors import NotFound
from longtask.store.access import first_id
from longtask.store.callers import (
    REQUEST_KEPT_MS,
    REQUEST_LOST_MS,
    Audit,
    AuditEnd,
    RequestBegin,
    RequestEnd,
    RequestKey,
    Token,
)
from tests.store.aside import Aside

KEY = RequestKey("ann", "k-1", "POST /v1/tasks")


def token(store, n: int = 1, **more) -> Token:
    made = Token(f"t{n}", "ann", ("operator", "approver"), None, "root", store.now(), **more)
    store.add_token(made, f"hash {n}")
    return made


def audit(store, n: int, **more) -> Audit:
    return Audit(first_id(store.now() + n), store.now() + n, "ann", "t1", "10.0.0.1", "POST /v1/tasks", **more)


def test_a_token_is_found_by_its_hash_and_by_nothing_else(store):
    one, two = token(store, 1), token(store, 2, expires_at=store.now() + 5)
    assert store.find_token("hash 1") == (one, "hash 1", None)
    assert store.find_token("hash 2").token == two
    assert store.find_token("hash") is None and store.find_token("") is None
    assert store.tokens("", 9) == [one, two]
    assert store.tokens("t1", 9) == [two]


def test_a_token_sees_the_workspaces_that_it_was_made_for(store):
    store.add_token(Token("t", "ann", ("viewer",), ("w-1", "w-2"), "root", 5), "h")
    store.add_token(Token("u", "ann", ("viewer",), (), "root", 5), "i")
    assert store.find_token("h").token.workspaces == ("w-1", "w-2")
    assert store.find_token("i").token.workspaces == (), "none is not all"


def test_after_a_rotation_the_old_form_is_known_with_its_end_and_the_one_before_not_at_all(store):
    token(store)
    store.rotate_token("t1", "new", store.now() + 60, store.now() + 9_000)
    assert store.find_token("new").until is None
    assert store.find_token("hash 1").until == store.now() + 60
    assert store.find_token("new").token.expires_at == store.now() + 9_000
    store.rotate_token("t1", "newer", store.now() + 70, None)
    assert store.find_token("hash 1") is None
    assert store.find_token("new").until == store.now() + 70
    assert store.find_token("newer").token.expires_at is None


def test_a_rotation_that_is_sent_twice_keeps_the_old_form(store):
    token(store)
    for _ in range(2):  # the answer to the first was lost
        store.rotate_token("t1", "new", store.now() + 60, None)
    assert store.find_token("hash 1").until == store.now() + 60


def test_a_revoked_token_stays_revoked_since_the_first_time(store, clock):
    token(store)
    store.revoke_token("t1")
    at = store.find_token("hash 1").token.revoked_at
    assert at == clock()
    clock.forward(1_000)
    store.revoke_token("t1")
    assert store.find_token("hash 1").token.revoked_at == at
    assert not store.find_token("hash 1").token.good(at)
    with pytest.raises(NotFound, match="no token 't1' that is good"):
        store.rotate_token("t1", "new", clock() + 60, None)
    with pytest.raises(NotFound, match="no token 'other'"):
        store.revoke_token("other")


def test_the_last_use_of_a_token_is_written_now_and_then(store, clock):
    token(store)
    store.touch_token("t1", clock())
    first = clock()
    clock.forward(10)
    store.touch_token("t1", clock() - 60_000)
    assert store.find_token("hash 1").token.used_at == first
    clock.forward(60_001)
    store.touch_token("t1", clock() - 60_000)
    assert store.find_token("hash 1").token.used_at == clock()


def test_what_came_of_a_request_is_told_to_its_row(store):
    rows = [audit(store, n, task_id="task 1" if n != 2 else None, step="a") for n in range(3)]
    store.begin_audit(rows)
    store.end_audit([AuditEnd(rows[0].id, 200, "", "another"), AuditEnd(rows[2].id, 409, "refused")])
    store.end_audit([AuditEnd("nobody", 200, "")])
    found = store.audit(task_id=None, who=None, before="", limit=9)
    assert found == [replace(rows[2], status=409, outcome="refused"), rows[1], replace(rows[0], status=200)]


def test_a_task_that_a_request_has_made_is_named_afterwards(store):
    row = audit(store, 1)
    store.begin_audit([row])
    store.end_audit([AuditEnd(row.id, 201, "", "task 7")])
    assert store.audit(task_id="task 7", who=None, before="", limit=9)[0].id == row.id


def test_the_audit_is_read_by_task_by_person_and_in_pages(store):
    rows = [audit(store, n, task_id=f"task {n % 2}") for n in range(6)]
    rows = [replace(row, who="bob") if n == 5 else row for n, row in enumerate(rows)]
    store.begin_audit(rows)
    store.begin_audit(rows)  # the answer to the first was lost
    newest = rows[::-1]
    page = store.audit(task_id=None, who=None, before="", limit=4)
    assert page == newest[:4]
    assert store.audit(task_id=None, who=None, before=page[-1].id, limit=4) == newest[4:]
    assert store.audit(task_id="task 1", who=None, before="", limit=9) == newest[::2]
    assert store.audit(task_id="task 1", who="bob", before="", limit=9) == newest[:1]
    assert store.audit(task_id=None, who="bob", before="", limit=9) == newest[:1]


def test_an_old_audit_goes_in_small_pieces_oldest_first(store):
    rows = [audit(store, n) for n in range(5)]
    store.begin_audit(rows)
    before = store.now() + 3
    assert store.forget_audit(before, 2) == 2
    assert store.audit(task_id=None, who=None, before="", limit=9) == rows[:1:-1]
    assert store.forget_audit(before, 2) == 1
    assert store.forget_audit(before, 2) == 0
    assert store.audit(task_id=None, who=None, before="", limit=9) == rows[:2:-1]


def test_a_row_of_the_audit_keeps_odd_text(store):
    row = replace(audit(store, 1), who="a\udcff'\"\\", address="\0", action="ü 漢 " + "x" * 5_000)
    store.begin_audit([row])
    store.end_audit([AuditEnd(row.id, 500, "\ud800")])
    [kept] = store.audit(task_id=None, who=None, before="", limit=1)
    assert (kept.who, kept.address, kept.outcome) == ("a?'\"\\", "?", "?")
    assert kept.action == "ü 漢 " + "x" * 196


def begin(store, key, digest, holder):
    [there] = store.begin_requests([RequestBegin(key, digest, holder)])
    return there


def end(store, key, holder, status, answer):
    [ended] = store.end_requests([RequestEnd(key, holder, status, answer)])
    return ended


def test_one_of_two_with_the_same_key_carries_the_request_out(store):
    assert begin(store, KEY, "digest", "h-1") is None
    there = begin(store, KEY, "digest", "h-2")
    assert (there.holder, there.done_at, there.key) == ("h-1", 0, KEY)
    assert end(store, KEY, "h-1", 201, '{"a":1}')
    done = begin(store, KEY, "other", "h-3")
    assert (done.status, done.answer, done.digest, done.done_at) == (201, '{"a":1}', "digest", store.now())


def test_of_requests_that_are_begun_together_each_hears_its_own(store):
    keys = [KEY._replace(key=f"k-{n}") for n in (3, 1, 2)]
    begin(store, keys[1], "digest", "h-0")
    asked = [RequestBegin(key, "digest", f"h-{n}") for n, key in enumerate([*keys, keys[0]], 1)]
    there = store.begin_requests(asked)
    assert [one and one.holder for one in there] == [None, "h-0", None, "h-1"]
    ends = [RequestEnd(key, f"h-{n}", 200 + n, None) for n, key in enumerate(keys, 1)]
    assert store.end_requests(ends) == [True, False, True]
    again = [RequestBegin(key, "digest", f"h-{n}") for n, key in enumerate(keys, 11)]
    assert [one.status for one in store.begin_requests(again)] == [201, 0, 203]


def test_a_request_begun_again_by_its_own_holder_is_its_own(store):
    for _ in range(2):  # the answer to the first was lost
        assert begin(store, KEY, "digest", "h-1") is None


def test_another_caller_or_route_is_another_request(store):
    assert begin(store, KEY, "digest", "h-1") is None
    assert begin(store, KEY._replace(caller="bob"), "digest", "h-2") is None
    assert begin(store, KEY._replace(route="POST /x"), "digest", "h-3") is None


def test_of_many_at_once_one_carries_it_out(open_store):
    stores = [open_store() for _ in range(2)]
    if stores[0].identity() != stores[1].identity():
        stores[1] = stores[0]  # two databases in memory
    calls = [Aside(partial(begin, stores[n % 2], KEY, "digest", f"h-{n}")) for n in range(8)]
    assert sum(call.result() is None for call in calls) == 1


def test_a_request_whose_server_was_killed_is_taken_over(store, clock):
    begin(store, KEY, "digest", "h-1")
    clock.forward(REQUEST_LOST_MS - 1)
    assert begin(store, KEY, "digest", "h-2") is not None
    clock.forward(1)
    assert begin(store, KEY, "other", "h-2") is not None, "not by another request"
    assert begin(store, KEY, "digest", "h-2") is None
    assert not end(store, KEY, "h-1", 200, None), "it was thought to be dead"
    assert end(store, KEY, "h-2", 200, None)


def test_a_request_that_was_not_carried_out_is_dropped_by_its_holder_alone(store):
    begin(store, KEY, "digest", "h-1")
    store.drop_request(KEY, "h-2")
    assert begin(store, KEY, "digest", "h-3") is not None
    store.drop_request(KEY, "h-1")
    assert begin(store, KEY, "another body", "h-3") is None
    end(store, KEY, "h-3", 200, None)
    store.drop_request(KEY, "h-3")
    assert begin(store, KEY, "another body", "h-4").status == 200, "an answer stays"


def test_an_answer_is_forgotten_after_a_day(store, clock):
    keys = [KEY._replace(key=f"k-{n}") for n in range(3)]
    for key in keys:
        begin(store, key, "digest", "h")
        end(store, key, "h", 200, None)
    clock.forward(REQUEST_KEPT_MS - 1)
    assert begin(store, keys[0], "digest", "h-2").status == 200
    assert store.forget_requests(9) == 0
    clock.forward(1)
    assert begin(store, keys[0], "another body", "h-2") is None
    assert store.forget_requests(1) == 1
    assert store.forget_requests(9) == 1
    assert begin(store, keys[0], "another body", "h-3").holder == "h-2"
