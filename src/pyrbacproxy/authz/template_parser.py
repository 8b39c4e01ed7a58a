"""A template's text → `Template`, or `TemplateError` with line and column.

The grammar is Go's text/template without what a rewrite has no use for (range, define, template,
block, call, js, floats): that is refused here, at the start, where Go would find even a bad
template only at the first request (D3). Stricter than Go where a template fails on every value: a
field that does not exist, an argument that nothing takes, a variable that is not set on every way
to it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyrbacproxy.authz.template import Part, Template, Text, encoded
from pyrbacproxy.authz.template_format import read_format
from pyrbacproxy.authz.template_functions import KNOWN, NOT_OURS
from pyrbacproxy.authz.template_literals import character, number, raw_string, string
from pyrbacproxy.authz.template_parts import (
    Branch,
    Call,
    Choice,
    Constant,
    Expression,
    FirstOf,
    RewriteValue,
    Show,
    Store,
    Variable,
)
from pyrbacproxy.authz.template_tokens import Kind, TemplateError, Token, tokens

# Of conditions and parentheses, and of functions in one pipeline: so that neither parsing nor
# rendering can run out of stack.
_DEEPEST = 20
_MOST_STAGES = 10
_VALUE = ".Value"
_WORDS = {"true": True, "false": False}
_END_OF_COMMAND = frozenset({Kind.CLOSE, Kind.RIGHT, Kind.PIPE})


def parse(text: str) -> Template:
    """Parse a template; raises TemplateError."""
    return _Parser(text).template()


class _Cursor:
    """Where a parser is among the tokens, and how deep."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next one."""
        return self._tokens[self._at]

    @property
    def token_after(self) -> Token:
        """The one behind; inside an action there is always one."""
        return self._tokens[self._at + 1]

    def take(self) -> Token:
        """The next one, which is then over."""
        token = self.token
        self._at += 1
        return token

    def expect(self, kind: Kind) -> None:
        """Take one of this kind."""
        if self.token.kind is not kind:
            raise self.error(self.token, f"unexpected {self.token.text or 'end'}")
        self.take()

    def error(self, token: Token, problem: str) -> TemplateError:
        """A problem at a token."""
        return TemplateError(self._text, token.position, problem)

    @contextmanager
    def nested(self, token: Token) -> Iterator[None]:
        """One level deeper."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(token, f"nested deeper than {_DEEPEST}")
        yield
        self.depth -= 1


class _Expressions(_Cursor):
    """Pipelines and what they are made of.

    Each variable and each dot of `with` has a slot; `names` are the variables in scope, `dot` is
    the slot of the dot, None where it is the whole.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.names: list[tuple[str, int]] = []
        self.dot: int | None = None

    def slot(self, name: Token) -> int:
        """Of the variable that was declared last under the name."""
        for known, slot in reversed(self.names):
            if known == name.text:
                return slot
        raise self.error(name, f"undefined variable {name.text}")

    def pipeline(self, context: str) -> Expression:
        """Commands with `|` between them; `context` is for the error when there is none."""
        if self.token.kind in _END_OF_COMMAND:
            raise self.error(self.token, f"a missing value in {context}")
        value = self._command(None)
        stages = 1
        while self.token.kind is Kind.PIPE:
            pipe = self.take()
            stages += 1
            if stages > _MOST_STAGES:
                raise self.error(pipe, f"more than {_MOST_STAGES} commands in a pipeline")
            value = self._command(value)
        return value

    def _command(self, piped: Expression | None) -> Expression:
        first = self.token
        if first.kind is Kind.NAME and first.text not in _WORDS:
            return self._call(self.take(), piped, takes_arguments=True)
        operand = self._operand()
        if piped is not None:
            raise self.error(first, f"nothing can be piped into {first.text}")
        if self.token.kind not in _END_OF_COMMAND:
            raise self.error(self.token, f"unexpected {self.token.text} after {first.text}")
        return operand

    def _call(
        self, name: Token, piped: Expression | None = None, *, takes_arguments: bool = False
    ) -> Expression:
        arguments: list[Expression] = []
        while takes_arguments and self.token.kind not in _END_OF_COMMAND:
            if not self.token.is_spaced:
                raise self.error(self.token, f"unexpected {self.token.text}, a blank is missing")
            arguments.append(self._operand())
        if name.text == "printf":
            return self._formatted(name, arguments, piped)
        if piped is not None:
            arguments.append(piped)
        if name.text in {"and", "or"}:
            self._check_count(name, len(arguments), 1, None)
            return FirstOf(name.text == "or", tuple(arguments), is_piped=piped is not None)
        known = KNOWN.get(name.text)
        if known is None:
            what = "supported" if name.text in NOT_OURS else "defined"
            raise self.error(name, f'function "{name.text}" is not {what}')
        self._check_count(name, len(arguments), known.least, known.most)
        return Call(known.function, tuple(arguments))

    def _formatted(
        self, name: Token, arguments: list[Expression], piped: Expression | None
    ) -> Expression:
        """A client's value must not be the format: it would say how much is written."""
        first = arguments[0] if arguments else None
        if not isinstance(first, Constant) or not isinstance(first.value, bytes):
            raise self.error(name, "the format of printf must be a string in quotes")
        try:
            form = read_format(first.value)
        except ValueError as error:
            raise self.error(name, str(error)) from None
        values = arguments[1:] if piped is None else [*arguments[1:], piped]
        wanted = len(form.directives)
        self._check_count(name, len(values), wanted, wanted)
        return Call(form.formatted, tuple(values))

    def _check_count(self, name: Token, count: int, least: int, most: int | None) -> None:
        if count < least or (most is not None and count > most):
            raise self.error(name, f"a wrong number of arguments for {name.text}: {count}")

    def _operand(self) -> Expression:
        token = self.take()
        operand = self._term(token)
        if self.token.kind is Kind.FIELD and not self.token.is_spaced:
            raise self.error(self.token, f"there is no field {self.token.text} in a text")
        return operand

    def _term(self, token: Token) -> Expression:
        match token.kind:
            case Kind.NAME if token.text in _WORDS:
                return Constant(_WORDS[token.text])
            case Kind.NAME:
                return self._call(token)
            case Kind.FIELD:
                return self._field(token, is_root=self.dot is None)
            case Kind.DOT if self.dot is not None:
                return Variable(self.dot)
            case Kind.VARIABLE if token.text == "$" and not self.token.is_spaced:
                return self._field(self.take(), is_root=True)
            case Kind.VARIABLE:
                return Variable(self.slot(token))
            case Kind.LEFT:
                with self.nested(token):
                    operand = self.pipeline("( )")
                self.expect(Kind.RIGHT)
                return operand
            case _:
                return Constant(self._literal(token))

    def _field(self, token: Token, *, is_root: bool) -> Expression:
        if not is_root:
            raise self.error(token, f"there is no field {token.text} in with; $.Value is there")
        if token.kind is not Kind.FIELD or token.text != _VALUE:
            raise self.error(token, _no_field(token))
        return RewriteValue()

    def _literal(self, token: Token) -> bytes | int:
        try:
            match token.kind:
                case Kind.NUMBER:
                    return number(token.text)
                case Kind.CHARACTER:
                    return character(token.text)
                case Kind.STRING:
                    return string(token.text)
                case Kind.RAW_STRING:
                    return raw_string(token.text)
        except ValueError as error:
            raise self.error(token, str(error)) from None
        raise self.error(token, f"unexpected {token.text or 'end'}")


class _Parser(_Expressions):
    """One parse, by recursive descent."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._slots = 0
        self._flaw = ""

    def template(self) -> Template:
        """The whole text."""
        parts = self._parts()
        if self.token.kind is not Kind.END:
            raise self.error(self.token, f"{{{{{self.token.text}}}}} without a beginning")
        return Template((), flaw=self._flaw) if self._flaw else Template(parts, self._slots)

    def _parts(self) -> tuple[Part, ...]:
        """Up to the end of the text, or with the next token `else` or `end`."""
        parts: list[Part] = []
        while True:
            if self.token.kind is Kind.END:
                return tuple(parts)
            token = self.take()
            if token.kind is Kind.TEXT:
                parts.append(Text(encoded(token.text)))
            elif self.token.text in {"else", "end"}:
                return tuple(parts)
            elif self.token.kind is Kind.KEYWORD:
                parts.append(self._choice(self.take()))
            else:
                parts.append(self._action())

    def _choice(self, keyword: Token) -> Choice:
        if keyword.text not in {"if", "with"}:
            raise self.error(keyword, f"{keyword.text} is not supported")
        in_scope = len(self.names)
        branches: list[Branch] = []
        otherwise: tuple[Part, ...] = ()
        with self.nested(keyword):
            while True:
                branches.append(self._branch(keyword))
                if self._ending(keyword) == "end":
                    break
                if self.token.kind is Kind.KEYWORD and self.token.text == keyword.text:
                    self.take()
                    continue
                self.expect(Kind.CLOSE)
                otherwise = self._scoped_parts()
                if self._ending(keyword) != "end":
                    raise self.error(self.token, "a second else")
                break
        del self.names[in_scope:]
        self.expect(Kind.CLOSE)
        return Choice(tuple(branches), otherwise)

    def _branch(self, keyword: Token) -> Branch:
        slot, condition = self._stored(keyword.text)
        slots: tuple[int, ...] = () if slot is None else (slot,)
        outside = self.dot
        if keyword.text == "with":
            self.dot = self._new_slot()
            slots += (self.dot,)
        parts = self._scoped_parts()
        self.dot = outside
        return Branch(condition, slots, parts)

    def _scoped_parts(self) -> tuple[Part, ...]:
        in_scope = len(self.names)
        parts = self._parts()
        del self.names[in_scope:]
        return parts

    def _ending(self, keyword: Token) -> str:
        """Take `else` or `end`; which of them it was."""
        token = self.take()
        if token.kind is Kind.END:
            raise self.error(keyword, f"{keyword.text} without end")
        return token.text

    def _action(self) -> Part:
        if self.depth == 0 and self._is_lone_field():
            # The original serves with such a template, and the field is always empty.
            self._flaw = self._flaw or str(self.error(self.token, _no_field(self.token)))
            self.take()
            self.expect(Kind.CLOSE)
            return Text(b"")
        slot, expression = self._stored("{{ }}")
        return Show(expression) if slot is None else Store(slot, expression)

    def _is_lone_field(self) -> bool:
        """Whether the action is a field and nothing else, and not the one that there is."""
        if self.token.kind is not Kind.FIELD:
            return False
        return self.token_after.kind is Kind.CLOSE and self.token.text != _VALUE

    def _stored(self, context: str) -> tuple[int | None, Expression]:
        """A pipeline to the action's end, and the slot that it goes to, if it names one."""
        name, sign = self.token, self.token_after
        if name.kind is not Kind.VARIABLE or sign.kind not in {Kind.DECLARE, Kind.ASSIGN}:
            expression = self.pipeline(context)
            self.expect(Kind.CLOSE)
            return None, expression
        self.take()
        self.take()
        expression = self.pipeline(context)
        self.expect(Kind.CLOSE)
        if sign.kind is Kind.ASSIGN:
            return self.slot(name), expression
        if name.text == "$":
            raise self.error(name, "$ can't be declared")
        slot = self._new_slot()
        self.names.append((name.text, slot))
        return slot, expression

    def _new_slot(self) -> int:
        self._slots += 1
        return self._slots - 1


def _no_field(token: Token) -> str:
    return f"there is no field {token.text}, only {_VALUE}"
