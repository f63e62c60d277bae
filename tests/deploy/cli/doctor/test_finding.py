from deploy.cli.doctor.finding import Finding


def test_what_is_well_needs_no_mending() -> None:
    assert Finding("python", "ok", "3.11").mend == ""
