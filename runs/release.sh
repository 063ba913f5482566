#!/usr/bin/env bash
# Make the release: every file of src/spectral_skills/pretrained, from motions to models,
# with results, pictures and the card.
#
#   CMU=DIR G1_MOVES=DIR runs/release.sh       everything
#   runs/release.sh skill directions           these stages alone
#
#   CMU         folder of the packed CMU set, or of its BVH files
#   G1_MOVES    folder of G1 Moves (CC BY 4.0)
#   DEVICE      cuda or cpu for what learns and what runs many robots
#   OUT         folder of the runs (runs/release)
#   PACKAGE     folder that the stage install fills (src/spectral_skills/pretrained)
#   SPECTRAL    the command to run (.venv/bin/spectral)
#   SMOKE=1     small, with generated clips as all three sources; results, pictures and
#               package stay under OUT
#   DRY=1       say what would be made
#   LAFAN1      folder of LAFAN1 for the G1, if the release is to be measured on it too
#   OTHERS      folders of more robot motion to measure it on, separated by spaces
#   PYTHON      the command that runs the benchmarks (.venv/bin/python)
#   GIVEN       stages whose outputs were brought to OUT, such as "skill controller" from
#               a machine with a GPU: they are taken as they are
#
# A stage is skipped if its output is there and was made by the same command from inputs
# of the same hashes; OUT/stamps has these. A stage that was killed continues. A stage
# whose inputs have changed begins anew: what it had made is removed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

OUT=${OUT:-runs/release}
SMOKE=${SMOKE:-}
DRY=${DRY:-}
read -ra given <<<"${GIVEN:-}"
read -ra spectral <<<"${SPECTRAL:-.venv/bin/spectral}"
read -ra python <<<"${PYTHON:-.venv/bin/python}"
read -ra others <<<"${OTHERS:-}"
chosen=("$@")
stages=(embedded cmu g1_moves skill first controller directions catalogue bases rows planner
    motions bundle results pictures install tables card)
for name in "${chosen[@]}" "${given[@]}"; do
    [[ " ${stages[*]} " == *" $name "* ]] || {
        echo "no stage '$name'; there are ${stages[*]}" >&2
        exit 1
    }
done

new=$OUT/pretrained # what will be released
corpora=("$OUT/corpora/embedded" "$OUT/corpora/cmu" "$OUT/corpora/g1_moves")
tracker=(--controller "$new/controller" --skill "$new/skill")
steering=("${tracker[@]}" --directions "$new/directions.safetensors")
models=("${steering[@]}" --planner "$new/planner")
stamps=$OUT/stamps

if [[ $SMOKE ]]; then
    PACKAGE=${PACKAGE:-$OUT/package}
    held_out=1
    embedded=(synth smoke)
    cmu=(synth smoke --seed 1)
    g1_moves=(synth smoke --seed 2)
    sources=()
    skill=(pretrain release-smoke --model.encoder.width 2 --updates 20)
    first=(track release-smoke)
    controller=(track release-smoke)
    responses=(--contexts 64) # robots of a small controller fall
    tried=(--bases walk --names turn)
    chosen_bases=(--chosen "$OUT/bases.toml")
    collected=(--robots 10 --steps 40 --candidates 1 --no-follow)
    planner=(plan smoke --updates 20)
    trials=(--robots 0)
    bases=(--bases walk rest)
    measured=("${corpora[0]}")
    record=$OUT/results.jsonl
    pictures=$OUT/pictures
else
    PACKAGE=${PACKAGE:-src/spectral_skills/pretrained}
    held_out=0.05
    embedded=(synth base)
    cmu=(retarget "${CMU:-}" --no-page)
    g1_moves=(ingest "${G1_MOVES:-}")
    sources=("${CMU:-}" "${G1_MOVES:-}")
    skill=(pretrain release)
    first=(track release --frames 200M)
    controller=(track release)
    responses=(--controller "$new/controller")
    tried=(--bases walk jog squat carry backward stand)
    chosen_bases=()
    collected=(--held-out "$held_out" --along 0.5 --robots 24)
    planner=(plan release)
    trials=()
    bases=()
    measured=("${corpora[@]}")
    record=docs/results.jsonl
    pictures=docs/pictures
fi

digest() { # PATH...: a hash of all files under these paths, by name and content
    local path
    for path; do
        if [[ -d $path ]]; then
            (cd "$path" && find . -type f -print0 | sort -z | xargs -0r sha256sum)
        elif [[ -f $path ]]; then
            sha256sum <"$path"
        else
            echo "nothing"
        fi
    done | sha256sum | cut -c1-32
}

stage() { # NAME INPUTS OUTPUTS COMMAND...: inputs and outputs are paths in one string
    local name=$1 inputs=$2 outputs=$3 key path code there=1
    shift 3
    [[ ${#chosen[@]} == 0 || " ${chosen[*]} " == *" $name "* ]] || return 0
    # shellcheck disable=SC2086 # paths of inputs are words
    key=$({ echo "$*"; declare -f "$1" || true; digest $inputs; } | sha256sum | cut -c1-32)
    for path in $outputs; do [[ -e $path ]] || there=; done
    if [[ $there && -f $stamps/$name && $(<"$stamps/$name") == "$key" ]]; then
        echo "$name: up to date"
        return 0
    fi
    if [[ $DRY ]]; then
        echo "$name: would be made"
        return
    fi
    mkdir -p "$stamps"
    if [[ " ${given[*]} " == *" $name "* ]]; then
        [[ $there ]] || { echo "$name: given, but not all of $outputs is there" >&2; exit 1; }
        echo "$name: taken as given"
        echo "$key" >"$stamps/$name"
        return 0
    fi
    echo "$name: being made"
    if [[ -f $stamps/$name.begun && $(<"$stamps/$name.begun") != "$key" ]]; then
        for path in $outputs; do # but not what else is in the docs
            if [[ $path == "$OUT"/* ]]; then rm -rf "$path"; fi
        done
    fi
    rm -f "$stamps/$name"
    echo "$key" >"$stamps/$name.begun"
    set +e # where a command stands before ||, its functions go on after an error
    (set -e && "$@")
    code=$?
    set -e
    [[ $code == 0 ]] || { echo "$name: failed; the same command continues" >&2; exit 1; }
    echo "$key" >"$stamps/$name"
}

run() { "${spectral[@]}" "$@"; }

heavy() { run "$@" ${DEVICE:+--device "$DEVICE"}; } # where it runs changes no output

need() { # VARIABLE FOLDER: refuse a source that is not there
    if [[ $SMOKE || -d $2 ]]; then return; fi
    echo "$1=$2: no folder; name the one of the motions, $1=DIR runs/release.sh" >&2
    exit 1
}

make_cmu() {
    need CMU "${CMU:-}"
    run "${cmu[@]}" --out "${corpora[1]}"
}

make_g1_moves() {
    need G1_MOVES "${G1_MOVES:-}"
    run "${g1_moves[@]}" --out "${corpora[2]}"
}

make_bases() {
    if [[ $SMOKE ]]; then # the small corpus has other clips than the real one
        printf '[rest]\nclip = "stand_0000"\nframes = [0, 80]\ntext = "rest"\nonce = true\n' \
            >"$OUT/bases.toml"
    fi
    run skills bases "${chosen_bases[@]}" --skill "$new/skill" --corpus "${corpora[1]}" \
        --out "$new/bases.safetensors"
}

make_bundle() {
    run export "${models[@]}" "${bases[@]}" --recorded "$new/bases.safetensors" \
        --motions "$new/motions.safetensors" --corpus "${corpora[@]}" --out "$OUT/bundle"
    cp "$OUT/bundle/support.safetensors" "$new/support.safetensors"
}

ran() { # STAGE: whether its run is here; what was given may be a model without it
    [[ " ${given[*]} " != *" $1 "* || -f $OUT/$1/log.jsonl ]]
}

make_results() {
    local place name more
    declare -A titles=([embedded]=embedded [cmu]=CMU [g1_moves]=g1-moves)
    mkdir -p "$OUT/results"
    for place in "${measured[@]}"; do
        name=$(basename "$place") more=()
        if [[ $name == cmu && -f ${CMU:-}/index.csv ]]; then
            more=(--kinds "$CMU/index.csv")
        fi
        heavy evaluate tracking "${tracker[@]}" --corpus "$place" --held-out "$held_out" \
            "${more[@]}" --label "the release, ${titles[$name]} held out" \
            --out "$OUT/results/$name.jsonl" --record "$record"
    done
    if ran skill; then
        run report skill --run "$OUT/skill" --label "the release's corpora" \
            --directions "$new/directions.safetensors" --record "$record"
    fi
    if [[ $SMOKE ]]; then return; fi # it completes no clip that could be reported
    if ran first; then
        run report tracking --run "$OUT/first" \
            --label "the release's corpora, first training" --record "$record"
    fi
    if ran controller; then
        run report tracking --run "$OUT/controller" --label "the release's corpora" \
            --record "$record"
    fi
    [[ -d $OUT/unseen ]] || run synth base --clips 128 --seed 22 --out "$OUT/unseen"
    heavy evaluate tracking "${tracker[@]}" --corpus "$OUT/unseen" \
        --label "the release, generated, unseen seed 22" \
        --out "$OUT/results/unseen.jsonl" --record "$record"
}

make_pictures() {
    local steered=(--base walk --direction turn --amplitude 2)
    mkdir -p "$pictures"
    run skills map --skill "$new/skill" --corpus "${corpora[0]}" --out "$pictures/skill_map.png"
    if [[ $SMOKE ]]; then
        run steer "${steering[@]}" "${steered[@]}" --seconds 4 --no-film --out "$OUT/steered"
    else
        steered=(--base walk --direction right_arm turn --amplitude 2 1)
        cp "$OUT/directions_poses.png" "$pictures/directions.png"
        if ran controller; then cp "$OUT/controller/curves.png" "$pictures/release_curves.png"; fi
        run steer "${steering[@]}" "${steered[@]}" --out "$OUT/steered"
        cp "$OUT/steered/run.gif" "$pictures/steered.gif"
        run rollout 111_05 "${tracker[@]}" --corpus "${corpora[1]}" --out "$OUT/rollout"
        cp "$OUT/rollout/111_05.png" "$pictures/rollout.png"
        run say "sneak forward, then wash the windows, then take a bow" \
            "${models[@]}" --out "$OUT/said"
        cp "$OUT/said/run.png" "$pictures/said.png"
    fi
    cp "$OUT/steered/run.png" "$pictures/steered.png"
}

make_install() {
    mkdir -p "$PACKAGE"
    find "$PACKAGE" -mindepth 1 -delete
    cp -r "$new"/. "$PACKAGE"
}

bench() { # NAME...: a benchmark of the installed models, on a CPU
    "${python[@]}" benchmarks/"$1".py "${@:2}" --record "$record"
}

measure() { # VERB TABLE...: a table of the installed models; what is there stays
    heavy evaluate "$@" --out "$OUT/tables" --record "$record"
}

make_tables() {
    local name level levels=()
    mkdir -p "$OUT/tables"
    # These commands measure the models of the package.
    if [[ $PACKAGE != src/spectral_skills/pretrained ]]; then return; fi
    for name in additivity alternatives pass_rates unseen; do
        measure composition "$name" --seeds 0 1 2
    done
    for level in 0 1 3 4; do
        levels+=("$OUT/tables/level$level.safetensors")
        heavy directions --skill "$OUT/skill" --corpus "${corpora[@]}" "${responses[@]}" \
            --held-out "$held_out" --level "$level" --out "${levels[-1]}"
    done
    measure composition dose --others "${levels[@]}"
    for name in hands ladder transfer; do measure composition "$name"; done
    measure chaining
    measure planning everyday
    measure planning everyday --planned
    measure planning pairs --corpus "${corpora[@]}"
    measure planning language --corpus "${corpora[@]}" --most 60 --episodes 1 --steps 400
    bench wordings wordings
    bench bases --corpus "${corpora[1]}" --robots 40 --changes 8
    bench jumps flights --corpus "${corpora[1]}"
    bench jumps search --corpus "${corpora[1]}" --clip 118_14
    bench smoothing --corpus "${corpora[1]}" --smoothing 0 0.2 0.3 0.4
    bench smoothing --corpus "${corpora[1]}" --smoothing 0 0.2 0.3 0.4 --other-robots
    for name in embedded cmu; do
        bench drift --corpus "$OUT/corpora/$name" --held-out "$held_out" --clips 20 \
            --label "the release, ${name/cmu/CMU} held out"
    done
    bench drive drive
    if [[ ${LAFAN1:-} ]]; then
        run ingest "$LAFAN1" --out "$OUT/corpora/lafan1"
        heavy evaluate tracking --corpus "$OUT/corpora/lafan1" --set lafan1-windows \
            --label "the release, LAFAN1 windows" --out "$OUT/tables/lafan1.jsonl" \
            --record "$record"
    fi
    if [[ ${#others[@]} != 0 ]]; then
        run ingest "${others[@]}" --out "$OUT/corpora/others"
        heavy evaluate tracking --corpus "$OUT/corpora/others" \
            --label "the release, other sources" --out "$OUT/tables/others.jsonl" \
            --record "$record"
    fi
}

make_card() {
    run report card "$new" --corpus "${corpora[@]}" --held-out "$held_out" --results "$record"
    cp "$new/CARD.md" "$PACKAGE"
}

stage embedded "" "${corpora[0]}" run "${embedded[@]}" --out "${corpora[0]}"
stage cmu "${sources[*]:0:1}" "${corpora[1]}" make_cmu
stage g1_moves "${sources[*]:1:1}" "${corpora[2]}" make_g1_moves
stage skill "${corpora[*]}" "$OUT/skill $new/skill" \
    heavy "${skill[@]}" --corpus "${corpora[@]}" --out "$OUT/skill" --release "$new/skill"
stage first "${corpora[*]} $new/skill" "$OUT/first" \
    heavy "${first[@]}" --corpus "${corpora[@]}" --skill "$OUT/skill" --out "$OUT/first"
stage controller "${corpora[*]} $new/skill $OUT/first" "$OUT/controller $new/controller" \
    heavy "${controller[@]}" --corpus "${corpora[@]}" --skill "$OUT/skill" \
    --init "$OUT/first" --out "$OUT/controller" --release "$new/controller"
stage directions "${corpora[*]} $new/skill $new/controller" "$OUT/directions.safetensors" \
    heavy directions --skill "$OUT/skill" --corpus "${corpora[@]}" "${responses[@]}" \
    --held-out "$held_out" --out "$OUT/directions.safetensors"
stage catalogue "$new/skill $new/controller $OUT/directions.safetensors" \
    "$OUT/catalogue $new/directions.safetensors" \
    heavy evaluate composition catalogue "${tracker[@]}" "${tried[@]}" \
    --directions "$OUT/directions.safetensors" --out "$OUT/catalogue" \
    --release "$new/directions.safetensors" --record "$record"
stage bases "${corpora[1]} $new/skill" "$new/bases.safetensors" make_bases
stage rows "${corpora[*]} $new/skill $new/controller $OUT/directions.safetensors" \
    "$OUT/rows" \
    heavy collect "${tracker[@]}" --corpus "${corpora[@]}" --directions "$OUT/directions.safetensors" "${collected[@]}" --out "$OUT/rows"
stage planner "$OUT/rows" "$OUT/planner $new/planner" \
    heavy "${planner[@]}" --rows "$OUT/rows" --out "$OUT/planner" \
    --release "$new/planner"
stage motions "${corpora[*]} $new/skill $new/controller $new/planner" \
    "$new/motions.safetensors" \
    heavy skills motions "${tracker[@]}" --planner "$new/planner" "${trials[@]}" \
    --corpus "${corpora[@]}" --out "$new/motions.safetensors"
stage bundle "${corpora[*]} $new/skill $new/controller $new/planner
    $new/directions.safetensors $new/bases.safetensors $new/motions.safetensors" \
    "$OUT/bundle $new/support.safetensors" make_bundle
stage results "${corpora[*]} $new/skill $new/controller $new/directions.safetensors" \
    "$OUT/results $record" make_results
stage pictures "${corpora[*]:0:2} $new/skill $new/controller $new/planner
    $new/directions.safetensors $new/bases.safetensors $new/motions.safetensors" \
    "$OUT/steered $pictures/steered.png" make_pictures
made="$new/skill $new/controller $new/planner $new/directions.safetensors
    $new/bases.safetensors $new/motions.safetensors $new/support.safetensors"
stage install "$made" "$PACKAGE/controller" make_install
stage tables "${corpora[*]} $made ${LAFAN1:-} ${others[*]}" "$OUT/tables $record" make_tables
stage card "${corpora[*]} $made $record" "$new/CARD.md" make_card
