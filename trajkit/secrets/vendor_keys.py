"""Keys that show by their first letters who gave them out.

The scanner below `trajkit.secrets` knows most of these shapes; some of its rules ask for more than
the key itself (a second key near by, a checksum, a word before it). A key that leaks is masked
whether or not it would still work, so the shapes here are wide behind a narrow prefix.
"""

from __future__ import annotations

import re

_TABLE = r"""
AKIA,ASIA,ABIA,ACCA        [A-Z0-9]{16}
LTAI                       [A-Za-z0-9]{12,20}
ghp_,gho_,ghu_,ghs_,ghr_   [A-Za-z0-9]{30,255}
github_pat_                [A-Za-z0-9_]{22,255}
glpat-,gldt-,glrt-  [\w-]{20,255}
sk-ant-,sk-proj-,sk-svcacct-,sk-admin-  [\w-]{20,255}
sk-or-v1-                  [0-9a-f]{40,64}
sk-lf-,pk-lf-              [0-9a-f-]{36}
AIza                       [\w-]{35}
ya29.                      [\w-]{20,1024}
GOCSPX-                    [\w-]{28}
xoxa-,xoxb-,xoxp-,xoxo-,xoxs-,xoxr-,xoxe-,xoxc-,xoxd-  [A-Za-z0-9%-]{10,255}
xapp-                      \d-[\w-]{20,255}
hooks.slack.com/           (?:services|workflows)/[A-Z0-9]{6,14}/[\w/-]{20,80}
discord.com/api/webhooks/,discordapp.com/api/webhooks/  \d{15,20}/[\w-]{40,90}
sk_live_,sk_test_,rk_live_,rk_test_  [A-Za-z0-9]{16,255}
whsec_                     [A-Za-z0-9+/=]{24,64}
hf_,api_org_               [A-Za-z0-9]{30,40}
npm_                       [A-Za-z0-9]{36}
pypi-AgE                   [\w-]{40,255}
SG.                        [\w-]{16,32}\.[\w-]{16,64}
xkeysib-                   [0-9a-f]{64}-[A-Za-z0-9]{16}
tvly-                      (?:dev-|prod-)?[\w-]{20,64}
gsk_,csk-,nvapi-,tgp_v1_,fw_  [\w-]{20,128}
xai-                       [\w-]{40,128}
pplx-                      [A-Za-z0-9]{32,64}
r8_                        [A-Za-z0-9]{30,44}
lsv2_pt_,lsv2_sk_          [0-9a-f]{32}_[0-9a-f]{10}
pcsk_                      [\w-]{30,128}
jina_                      [\w-]{40,80}
e2b_                       [0-9a-f]{40}
sbp_                       [0-9a-f]{40}
sb_secret_                 [\w-]{20,64}
nfp_,rnd_                  [A-Za-z0-9]{24,64}
HRKU-                      [\w-]{36,64}
dop_v1_,doo_v1_,dor_v1_    [0-9a-f]{64}
lin_api_,lin_oauth_        [A-Za-z0-9]{32,64}
ntn_                       [A-Za-z0-9]{40,50}
figd_                      [\w-]{40}
ATATT3,ATCTT3              [\w=-]{50,255}
ATBB                       [A-Za-z0-9]{32}
dapi                       [0-9a-f]{32}
shpat_,shpss_,shpca_,shppa_  [0-9a-fA-F]{32}
sq0atp-,sq0csp-            [\w-]{22,43}
dp.pt.,dp.st.,dp.sa.,dp.ct.  [\w.-]{20,64}
hvs.,hvb.,hvr.             [\w-]{24,255}
pul-                       [0-9a-f]{40}
NRAK-,NRJS-,NRII-          [\w-]{19,40}
glsa_                      [A-Za-z0-9]{32}_[0-9a-fA-F]{8}
glc_                       [A-Za-z0-9+/=]{32,255}
sntrys_,sntryu_            [A-Za-z0-9+/=_]{40,255}
PMAK-                      [0-9a-f]{24}-[0-9a-f]{34}
rubygems_                  [0-9a-f]{48}
dckr_pat_,dckr_oat_        [\w-]{20,64}
AGE-SECRET-KEY-1           [A-Z0-9]{50,64}
pscale_tkn_,pscale_pw_,pscale_oauth_  [\w.-]{30,64}
CFPAT-                     [\w-]{40,60}
EZAK,EZTK                  [A-Za-z0-9]{54}
"""
_LINES = [line.split(maxsplit=1) for line in _TABLE.split("\n") if line]

PREFIXES = tuple(sorted({prefix for prefixes, _ in _LINES for prefix in prefixes.split(",")}))
"""What a text must hold for one of these keys to be in it."""

KEY = re.compile(
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:"
    + b"|".join(
        b"(?:%s)%s"
        % (b"|".join(re.escape(p) for p in prefixes.encode().split(b",")), rest.encode())
        for prefixes, rest in _LINES
    )
    + rb")(?![A-Za-z0-9])",
    re.ASCII,
)
"""Matches a key where its prefix begins."""

WIDE_PREFIXES = ("sk-", "fc-", "key-", "vcp_", "dtn_", "pat_", "secret_")
"""Too short or too common to say much: what follows must look drawn by lot."""
WIDE_KEY = re.compile(
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:%s)([\w-]{24,255})(?![A-Za-z0-9])"
    % b"|".join(re.escape(p.encode()) for p in WIDE_PREFIXES),
    re.ASCII,
)
"""Matches such a key; group 1 is what follows the prefix."""
