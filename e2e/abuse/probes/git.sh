#: git-directory-is-its-own broke
same "a mount" "$(awk -v at="$PWD/.git" '$5 == at {print 1}' /proc/self/mountinfo)" 1
#: git-directory-cannot-be-moved broke
closed sh -c 'mv .git .gone && mv .gone .git'
#: git-plant-fsmonitor broke
git config -f .git/config core.fsmonitor "touch $MARKERS/git-plant-fsmonitor; false"
planted
#: git-plant-hooks broke
mkdir -p .git/hooks
for h in pre-commit post-commit post-checkout post-index-change reference-transaction pre-auto-gc; do
	printf '#!/bin/sh\ntouch %s/git-plant-hooks\n' "$MARKERS" >.git/hooks/$h && chmod +x .git/hooks/$h
done
planted
#: git-plant-filter broke
git config -f .git/config filter.evil.clean "touch $MARKERS/git-plant-filter; cat"
git config -f .git/config filter.evil.smudge "touch $MARKERS/git-plant-filter; cat"
mkdir -p .git/info && echo '*.md filter=evil diff=evil' >.git/info/attributes
planted
#: git-plant-textconv broke
git config -f .git/config diff.evil.textconv "touch $MARKERS/git-plant-textconv; cat"
planted
#: git-plant-attributes-file broke
printf '#!/bin/sh\ntouch %s/git-plant-attributes-file\ncat\n' "$MARKERS" >.ralph/conv && chmod +x .ralph/conv
git config -f .git/config diff.odd.textconv "$PWD/.ralph/conv"
echo '*.odd diff=odd' >.ralph/attributes
git config -f .git/config core.attributesFile "$PWD/.ralph/attributes"
planted
#: git-plant-external-diff broke
git config -f .git/config diff.external "touch $MARKERS/git-plant-external-diff; true"
planted
#: git-plant-alias broke
git config -f .git/config alias.st "!touch $MARKERS/git-plant-alias"
planted
#: git-plant-signing broke
printf '#!/bin/sh\ntouch %s/git-plant-signing\nexit 1\n' "$MARKERS" >.ralph/gpg && chmod +x .ralph/gpg
git config -f .git/config gpg.program "$PWD/.ralph/gpg"
git config -f .git/config commit.gpgSign true
planted
#: git-plant-editor broke
git config -f .git/config core.editor "touch $MARKERS/git-plant-editor; false"
planted
#: git-plant-ssh broke
git config -f .git/config core.sshCommand "touch $MARKERS/git-plant-ssh; false"
planted
#: git-plant-include broke
printf '[alias]\n\tinc = "!touch %s/git-plant-include"\n' "$MARKERS" >.ralph/included
git config -f .git/config include.path "$PWD/.ralph/included"
planted
