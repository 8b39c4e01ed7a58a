"""What the authorization file means; `config/` at the root of the repository holds the examples."""

from pathlib import Path

import pytest

from pyrbacproxy.authz.attributes import AttributeSettings, ResourceTemplates, Rewrites
from pyrbacproxy.authz.authorizers import StaticRule
from pyrbacproxy.authz.template_parser import parse
from pyrbacproxy.authz.templates import literal
from pyrbacproxy.config.authorization_file import AuthorizationFile, read_authorization_file
from pyrbacproxy.config.findings import Findings

EXAMPLES = Path(__file__).resolve().parents[2] / "config"
GOOD = sorted(EXAMPLES.glob("*.good.yaml"))
BAD = sorted(EXAMPLES.glob("*.bad.yaml"))
NOTHING = literal("")


def told(text: str, *, is_strict: bool = False) -> tuple[AuthorizationFile, Findings]:
    findings = Findings()
    return read_authorization_file(
        text.encode(), "/etc/a.yaml", findings, is_strict=is_strict
    ), findings


def understood(text: str) -> AuthorizationFile:
    """The file's meaning, nothing being wrong with it."""
    file, findings = told(text)
    assert findings == Findings()
    return file


def problems(text: str) -> list[str]:
    return told(text)[1].problems


def warnings(text: str) -> list[str]:
    _, findings = told(text)
    assert findings.problems == []
    return findings.warnings


# --- the examples ---------------------------------------------------------------------


def test_there_are_examples_of_both_kinds() -> None:
    assert len(GOOD) > 5
    assert len(BAD) > 10


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_a_good_example_is_read_without_a_word(path: Path) -> None:
    findings = Findings()
    read_authorization_file(path.read_bytes(), str(path), findings, is_strict=True)
    assert findings == Findings()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_a_bad_example_ends_the_start_as_its_first_line_says(path: Path) -> None:
    expected = path.read_text().partition("\n")[0].removeprefix("# problem: ")
    findings = Findings()
    read_authorization_file(path.read_bytes(), str(path), findings)
    assert [problem for problem in findings.problems if expected in problem]
    assert all(problem.startswith(f"--config-file {path}") for problem in findings.problems)


def test_dec_d22_the_hard_coded_rule_of_the_openshift_fork_is_an_example() -> None:
    file = understood((EXAMPLES / "crio-metrics.good.yaml").read_text())
    prometheus = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
    assert file.static_rules == (StaticRule(user_name=prometheus, verb="get", path="/metrics"),)
    assert file.attributes == AttributeSettings()


# --- resource attributes and rewrites ---------------------------------------------------


def test_every_field_of_resource_attributes_has_its_place() -> None:
    file = understood(
        "authorization: {resourceAttributes: {namespace: a, apiGroup: b, apiVersion: c,"
        " resource: d, subresource: e, name: f}}"
    )
    assert file.attributes == AttributeSettings(
        (
            ResourceTemplates(
                namespace=literal("a"),
                group=literal("b"),
                version=literal("c"),
                resource=literal("d"),
                subresource=literal("e"),
                name=literal("f"),
            ),
        )
    )


def test_without_rewrites_braces_are_literal() -> None:
    file = understood("authorization: {resourceAttributes: {namespace: '{{ .Value'}}")
    assert file.attributes.resources[0].namespace == literal("{{ .Value")


@pytest.mark.parametrize(
    ("rewrites", "expected"),
    [
        ("{}", Rewrites()),
        ("{byQueryParameter: {name: ns}}", Rewrites(query_parameter="ns")),
        ("{byHttpHeader: {name: X-Ns}}", Rewrites(header="X-Ns")),
        (
            "{byQueryParameter: {name: a}, byHttpHeader: {name: b}}",
            Rewrites(query_parameter="a", header="b"),
        ),
        ("{byQueryParameter: ~, byHttpHeader: {}}", Rewrites()),
    ],
)
def test_rewrites_turn_every_field_into_a_template(rewrites: str, expected: Rewrites) -> None:
    resource = "{name: 'x-{{ .Value }}'}"
    file = understood(f"authorization: {{resourceAttributes: {resource}, rewrites: {rewrites}}}")
    assert file.attributes.rewrites == expected
    assert file.attributes.resources[0].name == parse("x-{{ .Value }}")
    assert file.attributes.resources[0].group == parse("")


def test_rewrites_alone_are_inert_and_said_so() -> None:
    text = "authorization: {rewrites: {byQueryParameter: {name: ns}}}"
    place = "--config-file /etc/a.yaml, line 1: authorization.rewrites"
    assert warnings(text) == [f"{place}: no effect without resourceAttributes"]


def test_dec_n6_resource_attributes_may_be_a_list() -> None:
    file = understood("authorization: {resourceAttributes: [{resource: a}, {resource: b}]}")
    assert [one.resource for one in file.attributes.resources] == [literal("a"), literal("b")]


def test_an_empty_resource_check_in_a_list_is_a_problem() -> None:
    assert (
        "authorization.resourceAttributes[1]"
        in problems("authorization: {resourceAttributes: [{resource: a}, ~]}")[0]
    )


def test_nulls_leave_the_defaults() -> None:
    file = understood("authorization: {resourceAttributes: null, rewrites: ~, static:}\n")
    assert file == AuthorizationFile()


# --- static rules -----------------------------------------------------------------------


def test_every_field_of_a_static_rule_has_its_place() -> None:
    file = understood(
        """
        authorization:
          resourceAttributes: {namespace: e, apiGroup: f, resource: g, subresource: h, name: i}
          static:
          - user: {name: a, groups: [b, c]}
            verb: create
            namespace: e
            apiGroup: f
            resource: g
            subresource: h
            name: i
            resourceRequest: true
        """
    )
    assert file.static_rules == (
        StaticRule(
            user_name="a",
            groups=frozenset({"b", "c"}),
            verb="create",
            namespace="e",
            api_group="f",
            resource="g",
            subresource="h",
            name="i",
            is_resource_request=True,
        ),
    )


def test_dec_d1_a_rule_keeps_its_groups() -> None:
    file = understood("authorization: {static: [{path: /x, user: {groups: [ops]}}]}")
    assert file.static_rules == (StaticRule(path="/x", groups=frozenset({"ops"})),)


def test_fr42_an_empty_field_stays_empty() -> None:
    file = understood("authorization: {static: [{path: /x, verb: '', user: {name: ~}}]}")
    assert file.static_rules == (StaticRule(path="/x"),)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "both",
            "{static: [{resourceRequest: true, path: /x}]}",
            'static[0]: resourceRequest: true excludes path: "/x"',
        ),
        ("neither", "{static: [{verb: get}]}", "static[0]: needs either a path or resourceRequest"),
        ("null", "{static: [~]}", "static[0]: needs either a path or resourceRequest"),
        (
            "empty group",
            "{static: [{path: /x, user: {groups: ['']}}]}",
            "user.groups: holds an empty",
        ),
    ],
)
def test_fr42_contradictory_rules_end_the_start(name: str, text: str, said: str) -> None:
    assert said in problems(f"authorization: {text}")[0], name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{resourceAttributes: {resource: a}, static: [{path: /x}]}",
            "static[0]: a path rule never matches where resourceAttributes are configured",
        ),
        (
            "{static: [{resourceRequest: true, resource: a}]}",
            "static[0]: a resource rule never matches without resourceAttributes",
        ),
    ],
)
def test_fr42_rules_that_never_match_are_warned_about(text: str, said: str) -> None:
    assert said in warnings(f"authorization: {text}")[0]


# --- unknown keys -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{static: [{path: /x, verbs: get}]}",
        "{static: [{path: /x, user: {nam: a}}]}",
        "{static: [{path: /x, apiVersion: v1}]}",
        "{resourceAttributes: {resources: a}}",
        "{resourceAttributes: [{resources: a}]}",
        "{resourceAttributes: {resource: a}, rewrites: {byQuery: {name: a}}}",
        "{resourceAttributes: {resource: a}, rewrites: {byHttpHeader: {nam: a}}}",
    ],
)
def test_dec_d2_a_lost_key_that_would_widen_ends_the_start(text: str) -> None:
    (problem,) = problems(f"authorization: {text}")
    assert "unknown key" in problem


@pytest.mark.parametrize(
    "text",
    [
        "{static: [{path: /x, user: {name: a}, user: {}}]}",
        "{static: [{path: /x, user: {name: a}, USER: {name: b}}]}",
        "{static: [{path: /x, user: {name: a, Name: ~}}]}",
        "{static: [{path: /x, verb: get, verb: ~}]}",
        "{resourceAttributes: {resource: a, Resource: b}}",
        "{resourceAttributes: [{name: a, name: b}]}",
        "{resourceAttributes: {resource: a}, rewrites: {byHttpHeader: {name: a, NAME: b}}}",
    ],
)
def test_dec_d2_of_a_repeated_key_none_is_lost_in_silence(text: str) -> None:
    (problem,) = problems(f"authorization: {text}")
    assert problem.endswith("given more than once")


@pytest.mark.parametrize("value", ["!!null bob", "!!bool maybe"])
def test_a_tag_makes_nothing_else_of_a_word(value: str) -> None:
    (problem,) = problems(f"authorization: {{static: [{{path: /x, user: {{name: {value}}}}}]}}")
    assert f"static[0].user.name: must be text, not {value.split()[1]}" in problem


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("authorization: {}\ncomment: x\n", "line 2: comment", ""),
        (
            "authorization: {}\nauthorisation: x\n",
            "line 2: authorisation",
            ', did you mean "authorization"?',
        ),
    ],
)
def test_dec_d2_elsewhere_it_is_a_warning_unless_strict(text: str, place: str, hint: str) -> None:
    start = f"--config-file /etc/a.yaml, {place}: unknown key"
    assert warnings(text) == [f"{start}, ignored{hint}"]
    _, findings = told(text, is_strict=True)
    assert findings.problems == [f"{start}{hint} (--strict-config)"]


# --- no authorization -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", '; "authorization: {}" has no rules'),
        ("~", '; "authorization: {}" has no rules'),
        ("{}", '; "authorization: {}" has no rules'),
        ("authorization:", '; "authorization: {}" has no rules'),
        ("x: 1", '; "authorization: {}" has no rules'),
        ("authorisation: {}", ', did you mean it by "authorisation" in line 1?'),
        (
            "authorization:\nresourceAttributes: {resource: a}",
            '; "resourceAttributes" in line 2 must stand below it',
        ),
        ("Static: []", '; "Static" in line 1 must stand below it'),
    ],
)
@pytest.mark.parametrize("is_strict", [False, True])
def test_dec_d3_a_file_without_authorization_ends_the_start(
    text: str, hint: str, *, is_strict: bool
) -> None:
    _, findings = told(text, is_strict=is_strict)
    assert findings == Findings([f'--config-file /etc/a.yaml: lacks "authorization"{hint}'])


@pytest.mark.parametrize("text", ["[]", "x", "1"])
def test_fr98_what_is_no_mapping_is_one_problem(text: str) -> None:
    (problem,) = problems(text)
    assert "line 1: must be a mapping" in problem


def test_dec_d3_a_bad_template_names_file_line_and_key() -> None:
    (problem,) = problems(
        "authorization:\n"
        "  rewrites: {byQueryParameter: {name: n}}\n"
        "  resourceAttributes:\n"
        "    namespace: '{{ .Value'\n"
    )
    place = "--config-file /etc/a.yaml, line 4: authorization.resourceAttributes.namespace"
    assert problem.startswith(f"{place}: bad template: line 1, column 1: {{{{ without }}}}")


REWRITTEN = "authorization: {{rewrites: {{}}, resourceAttributes: {{{}: '{{{{ .Valeu }}}}'}}}}"


@pytest.mark.parametrize("key", ["namespace", "Namespace"])
def test_dec_d3_a_namespace_that_is_always_empty_ends_the_start(key: str) -> None:
    (problem,) = problems(REWRITTEN.format(key))
    assert f"authorization.resourceAttributes.{key}: would be empty" in problem
    assert problem.endswith("line 1, column 4: there is no field .Valeu, only .Value")


def test_another_field_that_is_always_empty_is_warned_about() -> None:
    findings = Findings()
    file = read_authorization_file(REWRITTEN.format("subresource").encode(), "f", findings)
    (warning,) = findings.warnings
    assert "authorization.resourceAttributes.subresource: always empty: line 1" in warning
    assert not findings.problems
    assert file.attributes.resources[0].subresource.render("x") == ""


def test_all_problems_are_told() -> None:
    found = problems(
        "authorization: {resourceAttributes: {resource: [a], foo: b}, static: [{verb: {}}, x]}"
    )
    keys = ["resource:", "foo:", "static[0].verb:", "static[1]:"]
    assert len(found) == len(keys)
    assert all(any(key in problem for problem in found) for key in keys)


@pytest.mark.parametrize(
    "text",
    [
        "{static: [{path: {}}]}",
        "{static: [{pth: /x}]}",
        "{static: [{resourceRequest: 'true', resource: a}]}",
        "{static: [x]}",
        "{static: {path: /x}}",
        "{static: [{verb: [get], path: /x}], resourceAttributes: {resource: a}}",
        "{resourceAttribute: {resource: a}, rewrites: {byHttpHeader: {name: a}}}",
        "{resourceAttribute: {resource: a}, static: [{resourceRequest: true, resource: a}]}",
        "{resourceAttributes: [], static: [{resourceRequest: true, resource: a}], rewrites: {}}",
        "{resourceAttributes: {resource: [a]}, static: [{resourceRequest: true, resource: a}]}",
    ],
)
def test_fr98_one_mistake_is_one_message(text: str) -> None:
    _, findings = told(f"authorization: {text}")
    assert len(findings.problems) == 1
    assert findings.warnings == []


# --- FR75, FR76: keys of other programs ---------------------------------------------------


@pytest.mark.parametrize("form", ["{}", "[{}]", "[{{resource: b}}, {}]"])
@pytest.mark.parametrize("value", ["get", "GET", "[a]", "{a: b}", "~", "'{{ .Value }}'"])
def test_fr75_verb_and_resource_name_are_ignored_with_a_word(form: str, value: str) -> None:
    check = form.format(f"{{resource: a, verb: {value}, ResourceName: {value}}}")
    text = f"authorization: {{resourceAttributes: {check}}}"
    verb, name = warnings(text)
    assert ".verb: ignored: the verb of the request's method is asked: get for GET, " in verb
    assert verb.endswith("* for any other")
    assert name.endswith('.ResourceName: ignored: without "name" every object is asked for')
    plain = form.format("{resource: a}")
    assert told(text)[0] == understood(f"authorization: {{resourceAttributes: {plain}}}")
    _, findings = told(text, is_strict=True)
    assert all(problem.endswith("(--strict-config)") for problem in findings.problems)
    assert len(findings.problems) == 2


def test_fr75_the_name_beside_a_resource_name_is_asked() -> None:
    text = "authorization: {resourceAttributes: {resource: a, name: b, resourceName: c}}"
    (warning,) = warnings(text)
    assert warning.endswith('.resourceName: ignored: "name" is asked')
    assert told(text)[0].attributes.resources[0].name == literal("b")


def test_fr75_other_unknown_keys_still_fail_and_the_unused_are_never_suggested() -> None:
    (problem,) = problems("authorization: {resourceAttributes: {verbs: get}}")
    assert problem.endswith(
        "verbs: unknown key; known are namespace, apiGroup, apiVersion, resource, subresource, name"
    )


@pytest.mark.parametrize(
    ("section", "hint"),
    [
        ("endpoints", "; known are resourceAttributes, rewrites, static"),
        ("Endpoints", "; known are resourceAttributes, rewrites, static"),
        ("resourceAttribute", ', did you mean "resourceAttributes"?'),
        ("rewrite", ', did you mean "rewrites"?'),
        ("statics", ', did you mean "static"?'),
        ("nonResourceAttributes", ', did you mean "resourceAttributes"?'),
        ("x", "; known are resourceAttributes, rewrites, static"),
    ],
)
@pytest.mark.parametrize("value", ["[]", "{path: /x}", "~"])
def test_fr76_an_unknown_section_may_hold_checks(section: str, hint: str, value: str) -> None:
    (problem,) = problems(f"authorization: {{{section}: {value}, static: [{{path: /x}}]}}")
    start = f"--config-file /etc/a.yaml, line 1: authorization.{section}: unknown key"
    assert problem == start + hint


@pytest.mark.parametrize("key", ["resourceAttributes", "rewrites", "endpoints", "ENDPOINTS"])
def test_fr76_checks_beside_authorization_are_not_lost(key: str) -> None:
    (problem,) = problems(f"authorization: {{static: [{{path: /x}}]}}\n{key}: {{a: b}}\n")
    assert f'line 2: {key}: must stand below "authorization", as authorization.' in problem


@pytest.mark.parametrize("text", ["static: [{path: /x}]", "rewrites: ~"])
def test_what_holds_no_check_is_ignored_beside_authorization(text: str) -> None:
    key = text.partition(":")[0]
    (warning,) = warnings(f"authorization: {{}}\n{text}\n")
    assert warning.endswith(f"line 2: {key}: ignored: authorization.{key} is read")


# --- FR96: rules that can never match -----------------------------------------------------


RESOURCES = "resourceAttributes: {resource: pods}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{static: [{path: /m, verb: GET}]}",
            (
                '[0].verb: never matches: no request is checked with the verb "GET"; '
                'did you mean "get"?'
            ),
        ),
        (
            "{static: [{path: metrics}]}",
            (
                "[0].path: never matches: the path of a request begins with /; "
                'did you mean "/metrics"?'
            ),
        ),
        (
            "{static: [{path: /metrics/}]}",
            '[0].path: matches no request without the slash at its end; did you mean "/metrics"?',
        ),
        (
            "{static: [{path: /m}, {path: /m, namespace: n}]}",
            "[1]: never matches: a path is compared with no resource; leave out namespace, or path",
        ),
        (
            f"{{{RESOURCES}, static: [{{resourceRequest: true, resource: pod}}]}}",
            '[0].resource: "pod" never matches: resourceAttributes ask for "pods"',
        ),
    ],
)
def test_fr96_a_rule_that_can_never_match_is_warned_about(text: str, said: str) -> None:
    (warning,) = warnings(f"authorization: {text}")
    assert warning == f"--config-file /etc/a.yaml, line 1: authorization.static{said}"
