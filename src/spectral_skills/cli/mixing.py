"""The verb that opens the desk. It imports what it needs when it runs."""

from pathlib import Path


def desk(
    bundle: Path | None = None,
    /,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    out: Path = Path("runs/desk"),
) -> None:
    """Steer a walking robot by faders, decks and words, in the browser.

    Everything is simulated on this machine, on the CPU. Ctrl-C closes the desk.

    Args:
        bundle: Folder of `spectral export`; without it, the released models.
        port: Of the page; without it, 8080 or the next one that is free.
        host: Address to open the page on. Whoever can reach it can use the desk, so
            only this machine can by default; 0.0.0.0 is for everybody.
        out: Folder for takes, films and presets.
    """
    import threading

    from spectral_skills.desk.engine import Engine
    from spectral_skills.desk.page import Page
    from spectral_skills.runtime.bundle import Bundle
    from spectral_skills.runtime.planning import PlanBeside
    from spectral_skills.runtime.released import base_bundle

    opened = Bundle.open(base_bundle() if bundle is None else bundle)
    planner = opened.planner()
    engine = Engine(opened, None if planner is None else PlanBeside(planner))
    page = Page(engine, out, host, port)
    page.start()
    print(f"desk      {page.address}")
    print("next      open it in a browser and move a fader; Ctrl-C closes the desk")
    print(f"files     {out}")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()
    finally:
        page.stop()
