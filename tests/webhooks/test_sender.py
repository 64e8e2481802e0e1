"""Events for programs elsewhere: each at least once, in order, signed; and what becomes of one that is not taken."""

from __future__ import annotations

import logging
import threading

import pytest
import standardwebhooks

from longtask.core.errors import BadPlan
from longtask.core.events import PUBLIC, NewStep, TaskPaused, TaskResumed
from longtask.core.model import Kind, TaskOptions
from longtask.steps.posting import Allowed
from longtask.webhooks import endpoints
from longtask.webhooks.sender import DELAYS_MS, HOLD_MS
from tests.conformance.play import act, claim, complete, ready, submit
from tests.receiver import receiving

HOUR = 3_600_000


def add(store, url, *types, **more):
    webhook, secret = endpoints.add(store, url, types=types, **more)
    return store.webhook(webhook.id), secret


def types(there):
    return [one.json["type"] for one in there.got]


def test_every_event_is_sent_in_its_order(store, rounds):
    with receiving() as there:
        add(store, there.url + "/hook")
        id_ = submit(store, 1, ready("a"))
        claim(store, id_, "a")
        assert rounds().go() == 1
        assert types(there) == ["longtask.started", "step.started"]
        assert [one.json["seq"] for one in there.got] == [1, 2]
        body = there.got[1].json
        assert (body["specversion"], body["id"], body["source"]) == ("1.0", f"{id_}/2", f"/tasks/{id_}")
        assert there.got[0].path == "/hook"


def test_what_is_sent_is_signed_and_a_receiver_verifies_it(store, rounds, clock):
    import time

    clock.at = int(time.time() * 1000)  # a receiver's library looks at its own clock
    with receiving() as there:
        _, secret = add(store, there.url)
        submit(store, 1, ready("a"), name="größe")
        rounds().go()
        (got,) = there.got
        assert secret is not None and secret.startswith("whsec_")
        told = standardwebhooks.Webhook(secret).verify(got.body, got.headers)
        assert told["data"]["name"] == "größe" and got.headers["content-type"] == "application/cloudevents+json"
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            standardwebhooks.Webhook(secret).verify(got.body + b" ", got.headers)


def test_it_hears_what_happens_after_it_was_added(store, rounds):
    submit(store, 1, ready("a"))
    with receiving() as there:
        add(store, there.url)
        assert rounds().go() == 0
        submit(store, 2, ready("a"))
        rounds().go()
        assert len(there.got) == 1


def test_one_fact_that_shows_as_two_events_is_two_messages_with_ids_of_their_own(store, rounds):
    with receiving() as there:
        add(store, there.url)
        submit(store, 1, ready("a"), options=TaskOptions(stages=("one",)))
        rounds().go()
        assert types(there) == ["longtask.started", "stage.started"]
        ids = [one.headers["webhook-id"] for one in there.got]
        assert len(set(ids)) == 2 and ids[0].removesuffix("_0") == ids[1].removesuffix("_1")


def test_events_are_chosen_by_type_and_by_workspace(store, rounds):
    with receiving() as some, receiving() as other:
        add(store, some.url, "longtask.p*", "step.completed", workspace_id="w")
        add(store, other.url, workspace_id="v")
        for number, workspace_id in ((1, "w"), (2, "x")):
            id_ = submit(store, number, ready("a", "b"), workspace_id=workspace_id)
            act(store, id_, TaskPaused(1, "ann"))
            act(store, id_, TaskResumed(1, "ann"))
            complete(store, id_, "a")
        rounds().go()
        assert types(some) == ["longtask.paused", "step.completed"]
        assert other.got == []


def test_what_was_not_taken_is_sent_again_under_the_same_id_when_its_time_has_come(store, rounds, clock):
    with receiving(500, 503, 204) as there:
        webhook, _ = add(store, there.url)
        id_ = submit(store, 1, ready("a"))
        claim(store, id_, "a")
        sends = rounds()
        sends.go()
        now = store.webhook(webhook.id)
        assert (len(there.got), now.failures, now.said) == (1, 1, "answer 500")
        assert now.due_at == clock.at + DELAYS_MS[0] and endpoints.state(now) == "failing"
        assert sends.go() == 0, "not before its time"
        clock.forward(DELAYS_MS[0])
        sends.go()
        assert (len(there.got), store.webhook(webhook.id).failures) == (2, 2)
        clock.forward(DELAYS_MS[1])
        sends.go()
        assert [one.json["seq"] for one in there.got] == [1, 1, 1, 2], "in order: the next one waits"
        ids = [one.headers["webhook-id"] for one in there.got]
        assert ids[0] == ids[1] == ids[2] != ids[3]
        stamps = [int(one.headers["webhook-timestamp"]) for one in there.got]
        assert stamps[0] < stamps[1] < stamps[2], "signed anew, for receivers refuse what is old"
        assert endpoints.state(store.webhook(webhook.id)) == "active"


def test_who_asks_for_more_time_is_given_it(store, rounds, clock):
    with receiving((429, {"Retry-After": "3600"}, b"")) as there:
        webhook, _ = add(store, there.url)
        submit(store, 1, ready("a"))
        rounds().go()
        assert store.webhook(webhook.id).due_at == clock.at + HOUR


def test_after_the_last_try_it_is_disabled_with_a_reason_and_nothing_is_lost(store, rounds, clock, caplog):
    with receiving(500) as there:
        webhook, _ = add(store, there.url + "/x?token=hunter2")
        submit(store, 1, ready("a"))
        sends = rounds()
        for delay_ms in DELAYS_MS:
            sends.go()
            clock.forward(delay_ms)
        assert endpoints.state(store.webhook(webhook.id)) == "failing"
        sends.go()
        now = store.webhook(webhook.id)
        assert endpoints.state(now) == "disabled" and now.said == "answer 500; the last of 9 tries"
        assert len(there.got) == 9
        clock.forward(24 * HOUR)
        submit(store, 2, ready("a"))
        assert sends.go() == 0
        there.answer = lambda _: 204
        store.enable_webhook(webhook.id)
        sends.go()
        assert [one.json["data"]["name"] for one in there.got[9:]] == ["play", "play"]
        assert "hunter2" not in caplog.text and "webhook.disabled" in caplog.text


def test_who_says_that_it_is_gone_is_disabled_at_once(store, rounds):
    with receiving(410) as there:
        webhook, _ = add(store, there.url)
        submit(store, 1, ready("a"))
        rounds().go()
        now = store.webhook(webhook.id)
        assert endpoints.state(now) == "disabled" and "410" in str(now.said)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(store, rounds, status):
    with receiving() as inside, receiving((status, {"Location": inside.url}, b"")) as there:
        webhook, _ = add(store, there.url)
        submit(store, 1, ready("a"))
        rounds().go()
        assert inside.got == [] and "redirects are not followed" in str(store.webhook(webhook.id).said)


def test_an_address_inside_is_not_reached(store, rounds):
    with receiving() as there:
        webhook, _ = add(store, there.url)
        submit(store, 1, ready("a"))
        rounds(allowed=Allowed()).go()
        assert there.got == [] and "not public" in str(store.webhook(webhook.id).said)


def test_one_that_does_not_answer_in_time_holds_up_itself_alone(store, rounds):
    hold = threading.Event()
    with receiving() as slow, receiving() as quick:
        slow.answer = lambda _: (hold.wait(20) and 204) or 204
        hanging, _ = add(store, slow.url)
        add(store, quick.url)
        submit(store, 1, ready("a"))
        rounds(timeout_s=0.3).go()
        hold.set()
        assert len(quick.got) == 1
        assert "no answer within 0.3 s" in str(store.webhook(hanging.id).said)


def test_a_replay_sends_again_what_has_happened_since_under_the_same_ids(store, rounds, clock):
    with receiving() as there:
        webhook, _ = add(store, there.url)
        for number in (1, 2, 3):
            submit(store, number, ready("a"))
            clock.forward(HOUR)
        sends = rounds()
        sends.go()
        ids = [one.headers["webhook-id"] for one in there.got]
        store.replay_webhook(webhook.id, clock.at - 2 * HOUR)
        sends.go()
        assert [one.headers["webhook-id"] for one in there.got] == ids + ids[1:]


def test_a_server_that_was_killed_is_followed_by_another_from_the_cursor(store, rounds, clock):
    """It had sent, and was killed before it could note that: that one is sent once more, and none is left out."""
    with receiving() as there:
        webhook, _ = add(store, there.url)
        id_ = submit(store, 1, ready("a"))
        claim(store, id_, "a")
        assert store.hold_webhook(webhook.id, "server-0", clock.at + HOLD_MS)  # and then it was killed
        second = rounds("server-2")
        second.go(1)
        assert there.got == []
        clock.forward(HOLD_MS)
        second.go()
        assert types(there) == ["longtask.started", "step.started"]


def test_several_servers_send_each_event_once(store, rounds):
    with receiving() as there:
        add(store, there.url)
        for number in range(1, 30):
            submit(store, number, ready("a"))
        servers = [rounds(f"server-{n}") for n in range(3)]
        threads = [threading.Thread(target=one.go) for one in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        servers[0].go()
        assert len(there.got) == 29
        assert len({one.headers["webhook-id"] for one in there.got}) == 29


def test_a_restart_goes_on_where_it_was(store, rounds):
    with receiving() as there:
        add(store, there.url)
        submit(store, 1, ready("a"))
        rounds("server-1").go()
        submit(store, 2, ready("a"))
        rounds("server-2").go()
        assert len(there.got) == 2


def test_what_fits_nothing_is_passed_over_without_being_sent_or_looked_at_for_ever(store, rounds, monkeypatch):
    monkeypatch.setattr("longtask.webhooks.sender.PAGE", 5)
    monkeypatch.setattr("longtask.webhooks.sender.PASSED_MAX", 20)
    with receiving() as there:
        webhook, _ = add(store, there.url, "longtask.paused")
        for number in range(1, 31):
            submit(store, number, ready("a"))
        sends = rounds()
        sends.go()
        assert there.got == []
        behind = store.tail(store.webhook(webhook.id).cursor, 100)
        assert len(behind) < 20, "the cursor follows"
        act(store, submit(store, 40, ready("a")), TaskPaused(1, "ann"))
        sends.go()
        assert types(there) == ["longtask.paused"]


def test_a_failure_in_the_middle_of_a_fact_does_not_repeat_its_first_event(store, rounds, clock):
    with receiving(204, 500, 204) as there:
        add(store, there.url)
        submit(store, 1, ready("a"), options=TaskOptions(stages=("one",)))
        sends = rounds()
        sends.go()
        clock.forward(DELAYS_MS[0])
        sends.go()
        assert types(there) == ["longtask.started", "stage.started", "stage.started"]


def test_a_part_of_one_fact_is_not_taken_for_a_part_of_the_next(store, rounds, clock):
    """The cursor stands before a fact whose first event was sent; what comes behind it has one event only."""
    with receiving(204, 500, 204) as there:
        add(store, there.url)
        id_ = submit(store, 1, ready("a"), options=TaskOptions(stages=("one",)))
        sends = rounds()
        sends.go()
        claim(store, id_, "a")
        clock.forward(DELAYS_MS[0])
        sends.go()
        assert types(there)[2:] == ["stage.started", "step.started"]


def test_a_secret_may_be_a_variable_of_the_server(store, rounds, monkeypatch, clock):
    import time

    clock.at = int(time.time() * 1000)
    secret = "whsec_ZmFrZS1zZWNyZXQtb2YtYS10ZXN0"
    with receiving() as there:
        webhook, made = add(store, there.url, secret_env="HOOK_SECRET")
        assert made is None and "whsec" not in store.webhook(webhook.id).secret
        submit(store, 1, ready("a"))
        monkeypatch.delenv("HOOK_SECRET", raising=False)
        sends = rounds()
        sends.go()
        assert there.got == [] and "'HOOK_SECRET'" in str(store.webhook(webhook.id).said)
        monkeypatch.setenv("HOOK_SECRET", secret)
        clock.forward(DELAYS_MS[0])
        sends.go()
        clock.forward(0)
        (got,) = there.got
        standardwebhooks.Webhook(secret).verify(got.body, got.headers)


def test_closing_cuts_off_what_is_under_way_and_blames_nobody_for_it(store, rounds):
    hold = threading.Event()
    with receiving() as there:
        there.answer = lambda _: (hold.wait(20) and 204) or 204
        webhook, _ = add(store, there.url)
        submit(store, 1, ready("a"))
        sends = rounds()
        assert sends.sender.tick() == 1
        there.wait()
        sends.sender.close()
        hold.set()
        now = store.webhook(webhook.id)
        assert (now.failures, now.said) == (0, None)
        rounds("server-2").go()
        assert [one.json["seq"] for one in there.got] == [1, 1]


def test_no_secret_is_logged(store, rounds, caplog):
    caplog.set_level(logging.DEBUG)
    with receiving(500) as there:
        _, secret = add(store, there.url + "/?key=hunter2")
        submit(store, 1, ready("a"))
        rounds().go()
        assert there.got and "webhook.failed" in caplog.text
        assert str(secret) not in caplog.text and "hunter2" not in caplog.text


# --- endpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("ftp://x", {}, "write https://HOST/PATH"),
        ("https://u:hunter2@x/", {}, "send secrets in a header"),
        ("https://x/", {"types": ["longtask.complete"]}, "did you mean 'longtask.completed'"),
        ("https://x/", {"types": ["nonsense.*"]}, "no event is of type 'nonsense.*'"),
        ("https://x/", {"types": ["step.*"] * 51}, "the limit is 50"),
        ("https://x/", {"secret_env": "whsec_abc="}, "what was given is no name"),
    ],
)
def test_an_endpoint_that_cannot_be_meant_is_refused(store, url, more, said):
    with pytest.raises(BadPlan, match=said) as told:
        endpoints.add(store, url, **more)
    assert "hunter2" not in str(told.value) and "whsec_abc" not in str(told.value)
    assert store.webhooks("", 9) == []


def test_a_document_holds_no_secret(store):
    webhook, secret = add(store, "https://hooks.example/a?token=hunter2", "step.*")
    told = endpoints.document(webhook)
    assert told["url"] == "https://hooks.example/a" and told["state"] == "active"
    assert str(secret) not in str(told) and "hunter2" not in str(told)


def test_every_type_that_an_event_can_have_can_be_chosen(store):
    from longtask.core.events import FACTS
    from longtask.core.public import public

    assert {"stage.completed", "ci.completed", "agent.run.completed"} <= endpoints.EVENT_TYPES
    names = {name for fact in FACTS.values() for name in [PUBLIC.get(fact.__name__)] if name}
    assert names <= endpoints.EVENT_TYPES and public(TaskPaused(1, "ann"))[0].name in endpoints.EVENT_TYPES


def test_new_steps_of_other_kinds_do_not_confuse_the_telling(store, rounds):
    with receiving() as there:
        add(store, there.url)
        submit(store, 1, [NewStep("ask", Kind.APPROVAL, ready=True)])
        rounds().go()
        assert types(there) == ["longtask.started"]
