"""The example on the site's home page."""

from home import EXAMPLE
from home import example as shown
from reports import example


def test_it_has_the_answer_the_next_log_and_the_path():
    content = example()
    assert content.next_log is not None
    page = shown(content)
    assert f"<p><strong>Deploy.</strong> {content.because}</p>" in page
    assert f"<p><strong>Next.</strong> {content.next_log.sentence}</p>" in page
    assert page.count("<svg ") == 1
    assert 'role="img" aria-label="The gain over today' in page


def test_the_page_has_one_that_is_small():
    assert EXAMPLE.read_text(encoding="utf-8").startswith('<figure class="example">')
    assert EXAMPLE.stat().st_size < 30_000
