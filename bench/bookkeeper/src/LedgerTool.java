import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.Enumeration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.meta.LedgerAuditorManager;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.net.BookieId;

/**
 * A client of BookKeeper that executes commands, one a line, and answers each with a line.
 * The argument is the URI of the metadata. `bookkeeper_set.py` is the other end.
 */
public final class LedgerTool {
    private static final byte[] PASSWORD = new byte[0];
    private static final DigestType DIGEST = DigestType.CRC32C;
    private static final int PENDING = 256;
    private static final long PAUSE_MS = 20;

    private final String uri;
    private final List<Long> ledgers = new ArrayList<>();
    private BookKeeper client;
    private int entries;
    private byte[] body;

    private LedgerTool(String uri) {
        this.uri = uri;
    }

    /** Executes what standard input says, to its end. */
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what the libraries log is no answer
        LedgerTool tool = new LedgerTool(args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            answers.println(tool.execute(words));
            answers.flush();
        }
        // An orderly end waits for connections to bookies that are gone.
        Runtime.getRuntime().halt(0);
    }

    private String execute(String[] words) throws Exception {
        switch (words[0]) {
            case "init":
                return init();
            case "bookies":
                return bookies();
            case "audited":
                return audited();
            case "write":
                return write(Integer.parseInt(words[1]), Integer.parseInt(words[2]),
                        Integer.parseInt(words[3]));
            case "marked":
                return marked();
            case "moved":
                return moved(words[1], words[2]);
            case "read":
                return read();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Makes the nodes of a cluster in ZooKeeper. */
    private String init() throws Exception {
        ServerConfiguration settings = new ServerConfiguration();
        settings.setMetadataServiceUri(uri);
        return Boolean.toString(BookKeeperAdmin.initNewCluster(settings));
    }

    /** Returns the bookies that can be written to. */
    private String bookies() throws Exception {
        StringBuilder found = new StringBuilder();
        for (BookieId bookie : new BookKeeperAdmin(client()).getAvailableBookies()) {
            found.append(bookie).append(' ');
        }
        return found.toString();
    }

    /** Returns whether there is an Auditor. */
    private String audited() throws Exception {
        try (LedgerAuditorManager auditors =
                client().getLedgerManagerFactory().newLedgerAuditorManager()) {
            return Boolean.toString(auditors.getCurrentAuditor() != null);
        } catch (IOException absent) {
            // Until a first candidate has come, there is no node to look in.
            return "false";
        }
    }

    private BookKeeper client() throws Exception {
        if (client == null) {
            ClientConfiguration settings = new ClientConfiguration();
            settings.setMetadataServiceUri(uri);
            settings.setAddEntryTimeout(60);
            settings.setReadEntryTimeout(60);
            client = new BookKeeper(settings);
        }
        return client;
    }

    /** Fills ledgers that have a copy on each of two bookies, and closes them. */
    private String write(int count, int entriesEach, int entryBytes) throws Exception {
        entries = entriesEach;
        body = new byte[entryBytes];
        new Random(1).nextBytes(body);
        Semaphore free = new Semaphore(PENDING);
        AtomicInteger failure = new AtomicInteger(BKException.Code.OK);
        for (int number = 0; number < count; number++) {
            LedgerHandle ledger = client().createLedger(2, 2, 2, DIGEST, PASSWORD);
            for (int entry = 0; entry < entries; entry++) {
                free.acquire();
                ledger.asyncAddEntry(bodyOf(ledger.getId(), entry), (code, handle, id, context) -> {
                    failure.compareAndSet(BKException.Code.OK, code);
                    free.release();
                }, null);
            }
            free.acquire(PENDING);
            free.release(PENDING);
            ledger.close();
            ledgers.add(ledger.getId());
            if (failure.get() != BKException.Code.OK) {
                throw BKException.create(failure.get());
            }
        }
        return ledgers.toString();
    }

    private byte[] bodyOf(long ledger, long entry) {
        byte[] made = body.clone();
        ByteBuffer.wrap(made).putLong(ledger).putLong(entry);
        return made;
    }

    /** Waits until the Auditor has marked a ledger. */
    private String marked() throws Exception {
        try (LedgerUnderreplicationManager marks =
                client().getLedgerManagerFactory().newLedgerUnderreplicationManager()) {
            while (!marks.listLedgersToRereplicate(null).hasNext()) {
                Thread.sleep(PAUSE_MS);
            }
        }
        return Long.toString(System.nanoTime());
    }

    /** Waits until each ledger has the one bookie in place of the other. */
    private String moved(String lost, String spare) throws Exception {
        Deque<Long> left = new ArrayDeque<>(ledgers);
        while (!left.isEmpty()) {
            List<BookieId> places = client().getLedgerManager().readLedgerMetadata(left.peek())
                    .get().getValue().getAllEnsembles().get(0L);
            if (places.contains(BookieId.parse(lost))) {
                Thread.sleep(PAUSE_MS);
            } else if (places.contains(BookieId.parse(spare))) {
                left.pop();
            } else {
                throw new IllegalStateException(places.toString());
            }
        }
        return Long.toString(System.nanoTime());
    }

    /** Compares every entry of every ledger; returns their number. */
    private String read() throws Exception {
        long found = 0;
        for (long id : ledgers) {
            LedgerHandle ledger = client().openLedgerNoRecovery(id, DIGEST, PASSWORD);
            for (int first = 0; first < entries; first += PENDING) {
                int last = Math.min(first + PENDING, entries) - 1;
                Enumeration<LedgerEntry> some = ledger.readEntries(first, last);
                while (some.hasMoreElements()) {
                    LedgerEntry entry = some.nextElement();
                    if (!Arrays.equals(entry.getEntry(), bodyOf(id, entry.getEntryId()))) {
                        throw new IllegalStateException(id + ":" + entry.getEntryId());
                    }
                    found++;
                }
            }
            ledger.close();
        }
        return Long.toString(found);
    }
}
