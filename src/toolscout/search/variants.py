"""Spelling variants of English words: abbreviations in full, British as American.

Tools have short names (`list_repos`, `get_db_info`) and people ask with full words, or the other
way round. Queries and tools are normalised alike, so it only matters that both variants become the
same word. Abbreviations that are words of other languages (`dir`, `vol`, `lang`) stay unchanged.
"""

from __future__ import annotations

import re

_ABBREVIATED = """
acct=account accts=accounts addr=address addrs=addresses admin=administrator admins=administrators
app=application apps=applications arg=argument args=arguments attr=attribute attrs=attributes
avg=average btc=bitcoin btn=button btns=buttons calc=calculate cfg=configuration cmd=command
cmds=commands config=configuration configs=configurations coord=coordinate coords=coordinates
db=database dbs=databases dept=department depts=departments dest=destination dirs=directories
doc=document docs=documents env=environment envs=environments err=error errs=errors eth=ethereum
exec=execute freq=frequency freqs=frequencies func=function funcs=functions gcal=google-calendar
gdrive=google-drive gh=github hrs=hours img=image imgs=images info=information infos=information
js=javascript k8s=kubernetes lib=library libs=libraries mgmt=management mins=minutes msg=message
msgs=messages orgs=organizations param=parameter params=parameters passwd=password pct=percent
pic=picture pics=pictures pkg=package pkgs=packages postgres=postgresql pr=pull-request
prev=previous prs=pull-requests qty=quantity ref=reference refs=references repo=repository
repos=repositories req=request reqs=requests secs=seconds spec=specification specs=specifications
stats=statistics svc=service svcs=services txn=transaction txns=transactions tz=timezone
vars=variables vm=virtual-machine vms=virtual-machines cheque=check cheques=checks defence=defense
defences=defenses grey=gray greys=grays licence=license licences=licenses programm=program
programme=program programmes=programs
"""
_FULL = {
    short: full.replace("-", " ")
    for short, full in (pair.split("=") for pair in _ABBREVIATED.split())
}

_BRITISH = re.compile(
    r"""
      (?<=[a-z]{3})(?<![aeu])is(?=(?:e(?:d|rs?|s)?|ing|ation(?:s|al)?|able)\Z)  # organise
    | (?<=[a-z]{2})our(?=(?:s|ed|ers?|ing|ites?|al|able|hoods?|ful)?\Z)         # colour
    | (?:(?<=cent)|(?<=met)|(?<=lit)|(?<=theat)|(?<=fib))re(?=[ds]?\Z)d?        # centre
    | (?<=[a-z]{3})ogu(?:(?=(?:ed|ers?|ing)\Z)|e(?=s?\Z))                      # catalogue
    | (?<=[a-z]{2})lys(?=(?:e(?:d|rs?|s)?|ing)\Z)                              # analyse
    """,
    re.VERBOSE,
)
# A quick test before the slow pattern: every British spelling contains one of these.
_MAY_BE_BRITISH = re.compile("[iorl](?:(?<=i)s|(?<=o)(?:ur|gu)|(?<=r)e|(?<=l)ys)")

_AMERICAN = {
    "is": "iz",
    "our": "or",
    "re": "er",
    "red": "ered",
    "ogu": "og",
    "ogue": "og",
    "lys": "lyz",
}
# Not changed: words whose relatives keep the s (revise and revision, advertise and advertisement),
# and words that Americans spell alike. One of them would become another word: scour is not score.
_UNCHANGED = (
    *("advertis", "advis", "concis", "precis", "revis", "supervis", "televis"),
    *("contour", "detour", "devour", "flour", "scour"),
)


def canonical_word(word: str) -> str:
    """The usual spelling of a lower-case word; an abbreviation may give several words."""
    if word in _FULL:
        return _FULL[word]
    if _MAY_BE_BRITISH.search(word) is None or word.startswith(_UNCHANGED):
        return word
    return _BRITISH.sub(lambda match: _AMERICAN[match[0]], word)
