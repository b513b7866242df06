"""Which language a text is in: by its script, and by the trigrams of Latin and Cyrillic letters."""

from __future__ import annotations

import re

from .trigrams import known_language_scores

ENGLISH = "en"
UNKNOWN = ""

# The scripts that stand for a language, the most telling first: Japanese also has Han characters.
_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
)
_LETTER = re.compile(r"[^\W\d_]")
# Two letters of a script without spaces say as much as a short Latin word.
_MIN_SCRIPT_SHARE = 1 / 3
_MAX_CHARS = 300
# A text of a catalog is in English until its trigrams say otherwise, in nats.
_MIN_EVIDENCE = 5.0
# A short request may look like a near relative of its language. Not for English, which nearly every
# catalog has: some requests in other languages would no longer be translated.
_SLACK = 4.0

_STOP_WORDS = """
a about ain all also am an and any are aren as at be been being but by can could couldn did didn do
does doesn doing don for from had hadn has hasn have haven having he her hers herself him himself
his how i if in into is isn it its itself just let like may me might must mustn my myself needn of
on onto or our ours ourselves please shall she should shouldn so some such than that the their
theirs them themselves then there these they this those to too upon us very want wants was wasn we
were weren what when where which while who whom whose why will with would wouldn you your yours
yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words of English that the index does not have as terms."""

_CONNECTIVES = """
and then|and also|after that|afterwards|then|also|additionally|furthermore|finally|next|and
as well as|und dann|und|danach|außerdem|anschließend|et ensuite|et|puis|ensuite|y luego|luego
después|además|y|e depois|depois|além disso|e poi|poi|inoltre|i potem|następnie|oraz|potem
ve sonra|sonra|ayrıca|en dan|daarna|и затем|затем|потом|также|и|а также
ثم|وبعد ذلك|بعد ذلك|وأيضا|أيضا|كذلك|و|그리고|그런 다음|그 후
"""
CONNECTIVES = tuple(_CONNECTIVES.strip().replace("\n", "|").split("|"))
"""Words between clauses, such as *and then*, in the languages of the bundled encoder."""

_FUNCTION_WORDS = """
aber alle allen aller alles als auch auf aus bei beim bis das dass dem den der des die dies
diese diesem diesen dieser dieses durch ein eine einem einen einer eines für gegen ihr ihre
ihren ist kann können mit nach nicht noch nur oder ohne sein seine seinen sich sie sind sowie
über und unter vom von vor war was wenn wer werden wie wird wurde zum zur zwischen
como con cual cuando del desde donde ella ellos entre esta estas este estos está están hacia
hasta las los más muy para pero por porque que ser sin sobre son sus también tiene una unas uno
unos aux avec ces cet cette dans des est elle elles ils leur leurs les mais nos notre nous par
pas plus pour qui quand sans ses son sont sous sur tous tout toute toutes une vos votre vous
agli alla alle anche che chi come cui dai dal dalla dalle degli dei del della delle dello dove
gli nei nel nella nelle nello non per più quando questa queste questi questo sono sua sue sugli
sui sul sulla suo suoi tra tutte tutti una uno aan als bij dan dat deze die dit door een geen
haar heeft het hij hun kan kunnen maar met naar niet nog ook over tot uit van voor waar wat
worden wordt zich zijn bez być czy dla gdy gdzie jak jako jest jej jego już ich który która
które lub nad nie oraz pod przez przy się są tego ten też tylko tym tych wszystkie
aos com das dele dela dos ela elas ele eles essa esse está estão isso mais mas meu nas nos não
num numa pela pelo quando quem sem ser seu seus sua suas são também uma umas uns
ama bir bu çok daha değil gibi hangi her için ile kadar sonra tüm veya
без был была было быть вам вас все всех где для его если есть или как который которые между
мне мой над него них она они оно под при так также тебе того только том что чтобы это этого этом
إلى التي الذي أن أو بين ذلك على عن في كان كل لا ما مع من هذا هذه هل هو هي
一个 一些 一种 以及 你的 其他 可以 如果 它的 我们 或者 所有 这个 这些 那个 进行
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Frequent words without a meaning of their own, of the bundled encoder's languages but English."""


def language_of(text: str) -> str:
    """The language of a tool's text, English if there is no clear sign of another one."""
    text = text[:_MAX_CHARS]
    if script := _language_of_script(text):
        return script
    scores = known_language_scores(text)
    best = max(scores, key=scores.__getitem__, default=ENGLISH)
    return best if best != ENGLISH and scores[best] > scores[ENGLISH] + _MIN_EVIDENCE else ENGLISH


def is_probably_in(text: str, language: str) -> bool:
    """Whether a request seems to be in a language, one of those that `language_of` returns."""
    text = text[:_MAX_CHARS]
    if script := _language_of_script(text):
        return script == language
    scores = known_language_scores(text)
    if language not in scores:
        return False
    slack = 0.0 if language == ENGLISH else _SLACK
    return scores[language] >= max(scores.values()) - slack


def _language_of_script(text: str) -> str:
    """The language of a script that is neither Latin nor Cyrillic, if a text is in one."""
    if text.isascii():
        return UNKNOWN
    letters = len(_LETTER.findall(text))
    counts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS}
    if sum(counts.values()) < max(1.0, _MIN_SCRIPT_SHARE * letters):
        return UNKNOWN
    return next(name for name, count in counts.items() if count)
