"""The HTML report in headless Chromium: no error, every picture drawn, tables that sort, no overflow on a phone and on a desk. Exit code 77: no Chromium."""
import shutil
import sys
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if webdriver is None or BROWSER is None or DRIVER is None:
    missing = [
        package for package, there in (("python3-selenium", webdriver), ("chromium", BROWSER), ("chromium-driver",
                                                                                                DRIVER)) if not there
    ]
    print(f"SKIPPED: the report is not opened in a browser, because {', '.join(missing)} is not installed")
    sys.exit(77)

from made_sweep import course  # noqa: E402
from reporting import Report  # noqa: E402
from job import Case  # noqa: E402

WIDTHS = (400, 1100, 1400)


class Browser(Case):
    def open(self, page):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--user-data-dir={self.folder / 'profile'}"):
            options.add_argument(word)
        options.binary_location = BROWSER
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.addCleanup(driver.quit)
        driver.get(page.as_uri())
        return driver

    def resize(self, driver, width):
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})

    def test_the_page(self):
        sweep, page = self.folder / "sweep", self.folder / "page.html"
        sweep.mkdir()
        course(sweep)
        report = Report(sweep, "--html", page)
        self.assertEqual(report.code, 0, report.err)
        driver = self.open(page)
        for width in WIDTHS:
            self.resize(driver, width)
            with self.subTest(width=width):
                self.no_overflow(driver, width)
                self.pictures_are_drawn(driver)
                self.first_screen(driver, width)
        self.tables_sort(driver)
        self.what_was_asked_folds_and_prints(driver)
        self.assertEqual(driver.get_log("browser"), [])
        requests = driver.execute_script("return performance.getEntriesByType('resource').length")
        self.assertEqual(requests, 0)

    def no_overflow(self, driver, width):
        page, window = driver.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        self.assertLessEqual(page, window)
        self.assertLessEqual(abs(window - width), 20)  # a bar for scrolling
        # What is wider than the page lies in a frame that scrolls by itself.
        wide = driver.execute_script("""return [...document.querySelectorAll("main *")].filter((one) =>
            one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".frame, pre, svg")).map((one) => one.outerHTML.slice(0, 80))"""
                                     )
        self.assertEqual(wide, [])

    def pictures_are_drawn(self, driver):
        pictures = driver.find_elements(By.CSS_SELECTOR, "figure svg")
        self.assertGreater(len(pictures), 12)
        for picture in pictures:
            title = picture.find_element(By.TAG_NAME, "title").get_attribute("textContent")
            width, height, shapes, small = driver.execute_script(
                """
                const box = arguments[0].getBoundingClientRect();
                const shapes = [...arguments[0].querySelectorAll("path, use, image")].filter((one) => one.getBBox().width + one.getBBox().height > 0);
                const letters = [...arguments[0].querySelectorAll("text")].map((one) => one.getBoundingClientRect());
                const outside = letters.filter((one) => one.left < box.left - 3 || one.right > box.right + 3);
                return [box.width, box.height, shapes.length, outside.length]""", picture)
            self.assertGreater(width, 300, title)
            self.assertGreater(height, 60, title)
            self.assertGreater(shapes, 3, title)
            self.assertEqual(small, 0, f"{title}: letters lie outside of the picture")

    def first_screen(self, driver, width):
        """On a desk the answer, its picture and the table's first rows stand on the first screen, and flags need no scrolling."""
        if width < 600:
            return
        bottoms = driver.execute_script("""return ["#recommendation .verdict", "#recommendation svg", "#results tbody tr:nth-child(2)"].map(
            (one) => document.querySelector(one).getBoundingClientRect().bottom + scrollY)""")
        self.assertLess(max(bottoms), 900, bottoms)
        reduction = driver.execute_script("""return [...document.querySelectorAll('#tasks th')].find((one) => one.textContent === 'reduction')
            .getBoundingClientRect().right""")
        self.assertLess(reduction, width)
        if width < 1400:
            return
        flags = driver.execute_script("return document.querySelector('#results > .frame th:last-child').getBoundingClientRect().right")
        self.assertLess(flags, width)

    def what_was_asked_folds_and_prints(self, driver):
        def is_shown():
            return driver.execute_script("return document.querySelector('#asked pre').checkVisibility({contentVisibilityAuto: true})")

        self.assertFalse(is_shown())
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.assertTrue(is_shown())
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def tables_sort(self, driver):
        def column(place):
            cells = driver.find_elements(By.CSS_SELECTOR, f"#results > .frame tbody td:nth-child({place})")
            numbers = [cell.find_elements(By.TAG_NAME, "data") for cell in cells]
            return [float(found[0].get_attribute("value")) if found else None for found in numbers]

        titles = [title.text for title in driver.find_elements(By.CSS_SELECTOR, "#results > .frame th")]
        place = titles.index("tokens/s") + 1
        before = column(place)
        known = sorted(value for value in before if value is not None)
        unknown = [None] * (len(before) - len(known))
        self.assertNotEqual(before, known + unknown)
        button = driver.find_element(By.CSS_SELECTOR, f"#results > .frame th:nth-child({place}) button")
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        self.assertEqual(column(place), known + unknown)
        button.click()
        self.assertEqual(column(place), known[::-1] + unknown)
        self.assertEqual(
            driver.find_element(By.CSS_SELECTOR, f"#results > .frame th:nth-child({place})").get_attribute("aria-sort"),
            "descending")


if __name__ == "__main__":
    unittest.main(verbosity=2)
